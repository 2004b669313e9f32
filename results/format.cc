#include "results/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include <fmt/format.h>

namespace grove::results {
namespace {

struct Range {
  char32_t first, last;
};

// Characters that show nothing or reorder what is around them.
constexpr Range kInvisible[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},    {0x115f, 0x1160},
    {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f},
    {0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff}};

constexpr Range kCombining[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
    {0x93a, 0x93c},   {0x941, 0x94d},   {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};

constexpr Range kWide[] = {
    {0x1100, 0x115e},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x25fd, 0x25fe},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26a1, 0x26a1},   {0x26bd, 0x26be},
    {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x274c},
    {0x2753, 0x2757},   {0x2795, 0x2797},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},
    {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
    {0xa000, 0xa4cf},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f004, 0x1f004}, {0x1f18e, 0x1f18e},
    {0x1f191, 0x1f19a}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb},
    {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};

template <std::size_t N>
bool In(const Range (&ranges)[N], char32_t c) {
  return std::any_of(ranges, ranges + N,
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

// The character at `at`; overlong forms, surrogates and what is beyond U+10FFFF are not valid.
Character Decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const char32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xf0 && lead <= 0xf4   ? 4
                             : lead >= 0xe0 && lead <= 0xef ? 3
                             : lead >= 0xc2 && lead <= 0xdf ? 2
                                                            : 0;
  if (length == 0) return {};
  char32_t code = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length, true};
}

int Columns(char32_t code) {
  if (code < 0x300) return 1;
  if (In(kCombining, code)) return 0;
  return In(kWide, code) ? 2 : 1;
}

std::string Show(std::string_view text, bool block) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character c = Decode(text, at);
    if (!c.valid) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else if (block && (c.code == '\n' || c.code == '\t')) {
      out += text[at];
    } else if (block && c.code == '\r' && at + 1 < text.size() && text[at + 1] == '\n') {
      // CR LF: the LF follows.
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code < 0x80 && In(kInvisible, c.code)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c.code));
    } else if (In(kInvisible, c.code)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c.code));
    } else {
      out += text.substr(at, c.bytes);
    }
    at += c.bytes;
  }
  return out;
}

// `digits` significant digits of a value in [1, 10000).
std::string Significant(double value, int digits) {
  const int before = value >= 1000 ? 4 : value >= 100 ? 3 : value >= 10 ? 2 : 1;
  return fmt::format("{:.{}f}", value, std::max(0, digits - before));
}

}  // namespace

std::string FormatTime(Nanoseconds time) {
  const double ns = time.count();
  if (!std::isfinite(ns) || ns < 0) return "-";
  // 0.99995 of a thousand rounds to "1000.": the next unit is the readable one.
  if (ns < 999.95) return Significant(ns, 4) + " ns";
  if (ns < 999.95e3) return Significant(ns / 1e3, 4) + " us";
  if (ns < 999.95e6) return Significant(ns / 1e6, 4) + " ms";
  return Significant(ns / 1e9, 4) + " s";
}

std::string FormatTime(Nanoseconds time, TimeKind kind) {
  return fmt::format("{} {}", FormatTime(time), Name(kind));
}

std::string FormatRatio(double ratio) {
  if (!std::isfinite(ratio) || ratio < 0) return "-";
  return ratio < 99.5 ? fmt::format("{:.2f}x", ratio) : fmt::format("{:.0f}x", ratio);
}

std::string FormatShare(double share) {
  if (!std::isfinite(share)) return "-";
  return fmt::format("{:.1f}%", share * 100);
}

std::string FormatBytes(Bytes bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes.value);
  std::size_t unit = 0;
  while (std::abs(value) >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.value);
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string FormatCount(std::int64_t count) {
  // fmt 9 prints a negative number's group_digits as unsigned.
  const auto bits = static_cast<std::uint64_t>(count);
  return fmt::format("{}{}", count < 0 ? "-" : "", fmt::group_digits(count < 0 ? 0 - bits : bits));
}

std::string FormatDuration(Seconds duration) {
  const double s = duration.count();
  if (!std::isfinite(s) || s < 0) return "-";
  if (s < 59.95) return fmt::format("{:.1f} s", s);
  const auto whole = static_cast<std::int64_t>(std::llround(s));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string FormatWallTime(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  if (::gmtime_r(&seconds, &utc) == nullptr) return "-";
  char text[64];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return {text, n};
}

std::string FormatNumber(double value) { return fmt::format("{:.6g}", value); }

std::string Visible(std::string_view text) { return Show(text, false); }
std::string VisibleBlock(std::string_view text) { return Show(text, true); }

int DisplayWidth(std::string_view utf8) {
  int width = 0;
  for (std::size_t at = 0; at < utf8.size();) {
    const Character c = Decode(utf8, at);
    width += c.valid ? Columns(c.code) : 1;
    at += c.bytes;
  }
  return width;
}

std::string Fit(std::string_view text, int width) {
  if (width <= 0) return {};
  if (DisplayWidth(text) <= width) return std::string(text);
  std::size_t at = 0;
  for (int used = 0; at < text.size();) {
    const Character c = Decode(text, at);
    const int columns = c.valid ? Columns(c.code) : 1;
    if (used + columns > width - 1) break;  // one column is the ellipsis's
    used += columns;
    at += c.bytes;
  }
  std::string cut(text.substr(0, at));
  while (!cut.empty() && cut.back() == ' ') cut.pop_back();
  return cut + "…";
}

std::string Pad(std::string_view text, int width) {
  std::string padded = Fit(text, width);
  const int missing = width - DisplayWidth(padded);
  if (missing > 0) padded.append(static_cast<std::size_t>(missing), ' ');
  return padded;
}

std::string DemandOf(const RunData& data) {
  for (const EnvironmentRow& row : data.environment) {
    if (row.key == kDemandKey) return row.value;
  }
  return {};
}

}  // namespace grove::results

// Numbers and foreign text for people, in one place. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "results/rows.h"

namespace grove::results {

// Four significant digits in the unit that keeps them readable: "812.0 ns", "524.3 us", "1.204 ms",
// "2.500 s". "-" for what is not a time (NaN, infinite, negative).
std::string FormatTime(Nanoseconds time);
// "524.3 us modelled": the label goes wherever the time goes.
std::string FormatTime(Nanoseconds time, TimeKind kind);
// "3.21x"; "123x" from 100 on; "-" for what is not a ratio.
std::string FormatRatio(double ratio);
// A share of 1: "83.0%".
std::string FormatShare(double share);
// Powers of 1024: "512 B", "48.0 KiB", "1.5 GiB".
std::string FormatBytes(Bytes bytes);
// "1,234,567".
std::string FormatCount(std::int64_t count);
// A duration on the wall: "0.4 s", "12.3 s", "3 min 05 s", "2 h 03 min".
std::string FormatDuration(Seconds duration);
// "2026-11-29 18:01:32 UTC".
std::string FormatWallTime(WallTime time);

// The key under which a run's environment says that the user demands another class of accuracy than
// the task (seeds::DescribeDemand), and what it says; empty when there is nothing to say. Every
// report of a run shows it.
inline constexpr std::string_view kDemandKey = "demanded class";
std::string DemandOf(const RunData& data);
// Up to six significant digits, for errors and element values: "0.00123", "1e-07", "nan".
std::string FormatNumber(double value);

// --- foreign text -------------------------------------------------------------------------------
// Texts of models, users and files may hold escape sequences, bidi overrides, invisible characters
// and broken UTF-8. These make them visible, so that what is shown is what is there and a terminal
// obeys none of it.

// One line: control, bidi and invisible characters as "\n", "\x1b", "\u202e"; bytes that are no
// UTF-8 as "\xff". The result is valid UTF-8 without control characters.
std::string Visible(std::string_view text);
// Many lines: as Visible, but newlines and tabs stay (CR LF becomes LF).
std::string VisibleBlock(std::string_view text);

// Columns that a text without control characters takes on a terminal: 2 for wide East Asian
// characters and emoji, 0 for combining marks, else 1.
int DisplayWidth(std::string_view utf8);
// `text` cut to at most `width` columns, with an ellipsis when something was cut. Never splits a
// character. REQUIRES: valid UTF-8 (Visible's result).
std::string Fit(std::string_view text, int width);
// As Fit, padded with spaces to exactly `width` columns.
std::string Pad(std::string_view text, int width);

}  // namespace grove::results

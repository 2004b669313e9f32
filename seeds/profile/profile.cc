#include "seeds/profile/profile.h"

#include <array>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

namespace grove::profile {

bool LooksLikeSqlite(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::array<char, 16> head{};
  stream.read(head.data(), head.size());
  return std::string_view(head.data(), static_cast<std::size_t>(stream.gcount())) ==
         std::string_view("SQLite format 3\0", 16);
}

Result<Profile> ReadProfile(const std::filesystem::path& file, Counted counted) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: no such file", file.string()));
  }
  if (!LooksLikeSqlite(file)) return ReadChromeTrace(file, counted);
  if (counted == Counted::kKernels) return ReadNsysExport(file);
  return Fail(
      ErrorCode::kInvalidInput,
      fmt::format("{}: an nsys export holds no operations, only what ran on a GPU", file.string()));
}

}  // namespace grove::profile

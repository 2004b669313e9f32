// The SQLite export of nsys (`nsys export --type sqlite`): docs/rank.md says what is read of it.
#include <set>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "seeds/profile/builder.h"

namespace grove::profile {
namespace {

constexpr char kKernels[] = "CUPTI_ACTIVITY_KIND_KERNEL";

std::set<std::string> ColumnsOf(SQLite::Database& database, const char* table) {
  std::set<std::string> columns;
  SQLite::Statement info(database, fmt::format("PRAGMA table_info({})", table));
  while (info.executeStep()) columns.insert(info.getColumn(1).getString());
  return columns;
}

Result<void> Missing(const std::filesystem::path& file, const char* table,
                     const std::set<std::string>& columns,
                     std::initializer_list<const char*> needed) {
  std::vector<std::string> missing;
  for (const char* name : needed) {
    if (!columns.contains(name)) missing.emplace_back(name);
  }
  if (missing.empty()) return {};
  return Fail(ErrorCode::kInvalidInput, fmt::format("{}: table {} has no column {}", file.string(),
                                                    table, fmt::join(missing, ", ")));
}

void ReadMemory(SQLite::Database& database, const char* table, Kernel::Kind kind,
                Builder& builder) {
  if (!database.tableExists(table)) return;
  const auto columns = ColumnsOf(database, table);
  if (!columns.contains("start") || !columns.contains("end")) return;
  const char* name = kind == Kernel::Kind::kCopy ? "Memcpy" : "Memset";
  const std::uint32_t kernel = builder.KernelIndex({name, {}, kind});
  SQLite::Statement rows(database,
                         fmt::format("SELECT start, \"end\", {} FROM {}",
                                     columns.contains("deviceId") ? "deviceId" : "0", table));
  while (rows.executeStep()) {
    Event event;
    event.start_ns = rows.getColumn(0).getInt64();
    event.duration_ns = std::max<std::int64_t>(0, rows.getColumn(1).getInt64() - event.start_ns);
    event.device = rows.getColumn(2).getInt();
    event.kernel = kernel;
    builder.profile().events.push_back(event);
  }
}

Result<Profile> Read(const std::filesystem::path& file) {
  SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
  Builder builder;
  if (!database.tableExists(kKernels)) {
    const bool graphs = database.tableExists("CUPTI_ACTIVITY_KIND_GRAPH_TRACE");
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: no table {}: {}", file.string(), kKernels,
                            graphs ? "it holds whole graphs only; profile with "
                                     "--cuda-graph-trace=node"
                                   : "no kernel was recorded, or this is no nsys export"));
  }
  const auto columns = ColumnsOf(database, kKernels);
  if (auto whole = Missing(file, kKernels, columns, {"start", "end"}); !whole) {
    return Failure(std::move(whole.error()));
  }
  const char* names = nullptr;
  for (const char* column : {"demangledName", "shortName", "mangledName"}) {
    if (names == nullptr && columns.contains(column)) names = column;
  }
  if (names == nullptr || !database.tableExists("StringIds")) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: kernels have no names (table StringIds, column demangledName)",
                            file.string()));
  }
  const auto or_zero = [&](const char* column) {
    return columns.contains(column) ? fmt::format("k.{}", column) : std::string("0");
  };
  SQLite::Statement rows(
      database,
      fmt::format("SELECT k.start, k.\"end\", s.value, {}, {}, {}, {}, {}, {}, {} FROM {} k "
                  "LEFT JOIN StringIds s ON s.id = k.{}",
                  or_zero("deviceId"), or_zero("gridX"), or_zero("gridY"), or_zero("gridZ"),
                  or_zero("blockX"), or_zero("blockY"), or_zero("blockZ"), kKernels, names));
  while (rows.executeStep()) {
    Event event;
    event.start_ns = rows.getColumn(0).getInt64();
    event.duration_ns = std::max<std::int64_t>(0, rows.getColumn(1).getInt64() - event.start_ns);
    event.device = rows.getColumn(3).getInt();
    Kernel kernel;
    kernel.name = rows.getColumn(2).isNull() ? "unknown" : rows.getColumn(2).getString();
    for (int i = 0; i < 3; ++i) {
      kernel.shape.grid[static_cast<std::size_t>(i)] = rows.getColumn(4 + i).getInt64();
      kernel.shape.block[static_cast<std::size_t>(i)] = rows.getColumn(7 + i).getInt64();
    }
    event.kernel = builder.KernelIndex(std::move(kernel));
    builder.profile().events.push_back(event);
  }
  ReadMemory(database, "CUPTI_ACTIVITY_KIND_MEMCPY", Kernel::Kind::kCopy, builder);
  ReadMemory(database, "CUPTI_ACTIVITY_KIND_MEMSET", Kernel::Kind::kFill, builder);
  if (database.tableExists("TARGET_INFO_GPU") &&
      ColumnsOf(database, "TARGET_INFO_GPU").contains("name")) {
    SQLite::Statement gpu(database, "SELECT name FROM TARGET_INFO_GPU LIMIT 1");
    if (gpu.executeStep()) builder.profile().gpu = gpu.getColumn(0).getString();
  }
  return std::move(builder.profile());
}

}  // namespace

Result<Profile> ReadNsysExport(const std::filesystem::path& file) {
  try {
    return Read(file);
  } catch (const SQLite::Exception& error) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: not a whole nsys export: {}", file.string(), error.what()));
  }
}

}  // namespace grove::profile

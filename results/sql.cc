#include "results/sql.h"

#include <algorithm>
#include <array>
#include <utility>

#include <SQLiteCpp/Backup.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <zstd.h>

#include "results/schema.h"

namespace grove::results {
namespace {

// Replies, sources and prompts are far smaller; a row that claims more is broken or hostile.
constexpr std::int64_t kTextLimit = std::int64_t{256} << 20;
constexpr int kCompressionLevel = 1;
constexpr int kReaderBusyMs = 5000;
constexpr std::size_t kRepeated = 131072;  // bytes of a text that is kept for comparing

// mode=ro still needs the -shm file of a WAL database. Where the folder is read-only and no process
// has left one, nobody can be writing, and the file may be taken as it is.
std::string Uri(const std::filesystem::path& file, std::string_view query) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri.append("?").append(query);
}

std::unique_ptr<Connection> OpenReadOnly(const std::filesystem::path& file) {
  const auto open = [&](std::string_view query) {
    SQLite::Database database(Uri(file, query), SQLite::OPEN_READONLY | SQLite::OPEN_URI,
                              kReaderBusyMs);
    database.exec("PRAGMA query_only = 1");
    database.exec("PRAGMA trusted_schema = OFF");               // a run may come from anyone
    database.execAndGet("SELECT count(*) FROM sqlite_master");  // the first real access
    return std::make_unique<Connection>(std::move(database), file);
  };
  try {
    return open("mode=ro");
  } catch (const SQLite::Exception& e) {
    std::error_code ignored;
    std::filesystem::path wal = file;
    wal += "-wal";
    const int code = e.getErrorCode();
    const bool no_shm = code == SQLITE_CANTOPEN || code == SQLITE_READONLY;
    if (!no_shm || std::filesystem::exists(wal, ignored)) throw;
    return open("mode=ro&immutable=1");
  }
}

}  // namespace

struct Connection::Packer {
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> context{ZSTD_createCCtx()};
  std::string packed;
  // Texts that came more than once, as plans and what requests share do, so that they are compared
  // without unpacking.
  std::array<std::pair<std::string, Hash>, 16> repeated;
  std::size_t next = 0;
};

Connection::Connection(SQLite::Database database, std::filesystem::path file)
    : database_(std::move(database)), file_(std::move(file)), packer_(std::make_unique<Packer>()) {}

Connection::~Connection() = default;

Connection::Transaction::Transaction(Connection& connection) : connection_(connection) {
  connection.Begin();
}

Connection::Transaction::~Transaction() {
  if (!committed_) ++connection_.rollbacks_;
  connection_.RollBack();
}

void Connection::Transaction::Commit() {
  connection_.Commit();
  committed_ = true;
}

Connection::Savepoint::Savepoint(Connection& connection) : connection_(connection) {
  Query(connection, "SAVEPOINT transition").Run();
}

Connection::Savepoint::~Savepoint() {
  if (released_) return;
  ++connection_.rollbacks_;
  if (!connection_.open()) return;
  try {
    Query(connection_, "ROLLBACK TO transition").Run();
    Query(connection_, "RELEASE transition").Run();
  } catch (const SQLite::Exception&) {  // half a transition must not be committed
    connection_.RollBack();
  }
}

void Connection::Savepoint::Release() {
  Query(connection_, "RELEASE transition").Run();
  released_ = true;
}

// SQLite ends a transaction by itself after a commit and after some errors.
bool Connection::open() const { return sqlite3_get_autocommit(database_.getHandle()) == 0; }

void Connection::Begin() { Query(*this, "BEGIN IMMEDIATE").Run(); }

void Connection::Commit() { Query(*this, "COMMIT").Run(); }

Status Connection::CommitOpen() {
  Status done = Guard([this] { Commit(); });
  if (!done) RollBack();
  return done;
}

void Connection::RollBack() {
  if (!open()) return;
  ++rollbacks_;
  try {
    Query(*this, "ROLLBACK").Run();
  } catch (const SQLite::Exception&) {  // what made it fail is already on its way up
  }
}

std::string_view Connection::Pack(std::string_view text) {
  if (!packer_->context) Throw(ErrorCode::kResource, "out of memory for zstd");
  packer_->packed.resize(std::max(packer_->packed.size(), ZSTD_compressBound(text.size())));
  const std::size_t size =
      ZSTD_compressCCtx(packer_->context.get(), packer_->packed.data(), packer_->packed.size(),
                        text.data(), text.size(), kCompressionLevel);
  if (ZSTD_isError(size) != 0) {
    Throw(ErrorCode::kInternal, fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  }
  return {packer_->packed.data(), size};
}

std::optional<Hash> Connection::Repeated(std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (const auto& [known, hash] : packer_->repeated) {
    if (known != text) continue;
    // The transition that stored it may have been taken back.
    if (Query(*this, "SELECT 1 FROM texts WHERE hash = ?", hash).Step()) return hash;
  }
  return std::nullopt;
}

void Connection::Repeat(std::string_view text, const Hash& hash) {
  if (text.size() > kRepeated) return;
  packer_->repeated[packer_->next++ % packer_->repeated.size()] = {std::string(text), hash};
}

void Throw(ErrorCode code, std::string message) {
  throw StoreException{Error{code, std::move(message)}};
}

Error ToError(const SQLite::Exception& exception, const std::filesystem::path& file) {
  const int code = exception.getErrorCode() & 0xff;
  const std::string name = file.string();
  const std::string_view what = exception.what();
  switch (code) {
    case SQLITE_FULL:
      return {ErrorCode::kResource,
              fmt::format("cannot write {}: the disk is full; free space and resume", name)};
    case SQLITE_IOERR:
      return {ErrorCode::kResource,
              fmt::format("cannot write or read {}: {}; check space, quota and file size limits, "
                          "then resume",
                          name, what)};
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorCode::kResource,
              fmt::format("cannot write or open {}: {}; is the folder read-only?", name, what)};
    case SQLITE_NOMEM:
      return {ErrorCode::kResource, fmt::format("out of memory while using {}", name)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable,
              fmt::format("{} is locked by another program; close it and try again", name)};
    case SQLITE_NOTADB:
      return {ErrorCode::kInvalidInput, fmt::format("{} is not an SQLite file", name)};
    case SQLITE_CORRUPT:
      return {ErrorCode::kInternal, fmt::format("{} is damaged: {}", name, what)};
    default:
      return {ErrorCode::kInternal, fmt::format("{}: {}", name, what)};
  }
}

SQLite::Statement& Connection::Prepare(std::string_view sql) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    auto statement = std::make_unique<SQLite::Statement>(database_, std::string(sql));
    it = statements_.emplace(std::string(sql), std::move(statement)).first;
  }
  return *it->second;
}

Hash ParseHash(std::string_view hex) {
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    Throw(ErrorCode::kInternal, fmt::format("the store holds a broken hash '{}'", hex));
  }
  return {std::stoull(std::string(hex.substr(0, 16)), nullptr, 16),
          std::stoull(std::string(hex.substr(16)), nullptr, 16)};
}

Result<std::unique_ptr<Connection>> OpenForReading(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("no run store at {}", file.string()));
  }
  try {
    auto connection = OpenReadOnly(file);
    const Result<int> version = CheckVersion(connection->database(), Migrations());
    if (!version) return Fail(version.error(), file.string());
    if (*version == SchemaVersion()) return connection;
    SQLite::Database copy(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    SQLite::Backup(copy, connection->database()).executeStep(-1);
    if (Status migrated = Migrate(copy, Migrations()); !migrated) {
      return Fail(migrated.error(), file.string());
    }
    return std::make_unique<Connection>(std::move(copy), file);
  } catch (const SQLite::Exception& e) {
    return Fail(ToError(e, file));
  }
}

Hash PutText(Connection& connection, std::string_view text) {
  if (text.size() > static_cast<std::size_t>(kTextLimit)) {
    Throw(ErrorCode::kInvalidInput, fmt::format("a text of {} bytes is too large for the store "
                                                "(limit {} bytes)",
                                                text.size(), kTextLimit));
  }
  if (const std::optional<Hash> known = connection.Repeated(text)) return *known;
  const Hash hash = HashText(text);
  const std::string_view packed = connection.Pack(text);
  SQLite::Statement& insert = connection.Prepare(
      "INSERT INTO texts (hash, size_bytes, content) VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
  insert.reset();
  insert.bind(1, hash.Hex());
  insert.bind(2, static_cast<std::int64_t>(text.size()));
  insert.bindNoCopy(3, packed.data(), static_cast<int>(packed.size()));
  const bool fresh = insert.exec() > 0;
  insert.reset();
  insert.clearBindings();
  if (fresh) return hash;
  // The hash is not cryptographic and a model chooses the text: equal hashes prove nothing.
  if (GetText(connection, hash) != text) {
    Throw(ErrorCode::kInternal, "two different texts have the hash " + hash.Hex());
  }
  connection.Repeat(text, hash);
  return hash;
}

std::string Unpack(const void* content, std::size_t bytes, std::int64_t size, const Hash& hash) {
  const auto broken = [&](std::string_view why) {
    Throw(ErrorCode::kInternal, fmt::format("the text {} is damaged: {}", hash.Hex(), why));
  };
  if (size < 0 || size > kTextLimit) broken("impossible size");
  std::string text(static_cast<std::size_t>(size), '\0');
  const std::size_t n = ZSTD_decompress(text.data(), text.size(), content, bytes);
  if (ZSTD_isError(n) != 0) broken(ZSTD_getErrorName(n));
  if (n != text.size()) broken("shorter than its size");
  if (HashText(text) != hash) broken("its content does not have this hash");
  return text;
}

std::string GetText(Connection& connection, const Hash& hash) {
  SQLite::Statement& query =
      connection.Prepare("SELECT content, size_bytes FROM texts WHERE hash = ?");
  query.reset();
  query.bind(1, hash.Hex());
  if (!query.executeStep()) {
    query.reset();
    Throw(ErrorCode::kNotFound, fmt::format("the store has no text {}", hash.Hex()));
  }
  const SQLite::Column content = query.getColumn(0);
  const std::string packed(static_cast<const char*>(content.getBlob()),
                           static_cast<std::size_t>(content.getBytes()));
  const std::int64_t size = query.getColumn(1).getInt64();
  query.reset();
  return Unpack(packed.data(), packed.size(), size, hash);
}

}  // namespace grove::results

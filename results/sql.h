// Inside of results/ only: a connection with cached statements, values in and out as our types, and
// the one place where SQLite's exceptions become Errors. Includes SQLiteCpp, so never included by a
// header that others use. Not thread-safe: the owner locks.
#pragma once

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include "base/hash.h"
#include "base/result.h"
#include "base/units.h"
#include "results/rows.h"

namespace grove::results {

// Carries an Error out of a transaction, which its destructor rolls back.
struct StoreException {
  Error error;
};
[[noreturn]] void Throw(ErrorCode code, std::string message);

// What SQLite said, as one of ours: kResource for a disk or permission, kUnavailable for a lock,
// kInternal for a broken file or a broken rule of the schema.
Error ToError(const SQLite::Exception& exception, const std::filesystem::path& file);

class Connection {
 public:
  Connection(SQLite::Database database, std::filesystem::path file);
  ~Connection();

  SQLite::Database& database() { return database_; }
  const std::filesystem::path& file() const { return file_; }
  // Compiled once. REQUIRES: the statement of this text is not in use.
  SQLite::Statement& Prepare(std::string_view sql);

  // Runs `body` and turns what it throws into an Error. T is what body returns.
  template <typename F>
  auto Guard(F&& body) -> Result<std::invoke_result_t<F>> {
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
        body();
        return {};
      } else {
        return body();
      }
    } catch (const StoreException& e) {
      return Fail(e.error);
    } catch (const SQLite::Exception& e) {
      return Fail(ToError(e, file_));
    } catch (const std::bad_alloc&) {
      return Fail(ErrorCode::kResource, "out of memory while using " + file_.string());
    }
  }

  // As Guard, inside one transaction: all of it is stored or nothing.
  template <typename F>
  auto Transact(F&& body) -> Result<std::invoke_result_t<F>> {
    return Guard([&]() -> std::invoke_result_t<F> {
      Transaction transaction(*this);
      if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
        body();
        transaction.Commit();
      } else {
        auto result = body();
        transaction.Commit();
        return result;
      }
    });
  }

  // As Guard, inside the open transaction, which it begins when there is none. A body that fails
  // before it has changed anything leaves the transaction open and as it was; one that fails later
  // takes all of it back.
  template <typename F>
  auto Join(F&& body) -> Result<std::invoke_result_t<F>> {
    return Guard([&]() -> std::invoke_result_t<F> {
      if (!open()) Begin();
      const int changes = database_.getTotalChanges();
      try {
        return body();
      } catch (...) {
        if (database_.getTotalChanges() != changes) RollBack();
        throw;
      }
    });
  }
  // As Join, but when `body` fails, what it wrote is taken back and the transaction stays open,
  // unless SQLite gave all of it up. It costs a copy of each page that the body changes.
  template <typename F>
  auto JoinApart(F&& body) -> Result<std::invoke_result_t<F>> {
    return Guard([&]() -> std::invoke_result_t<F> {
      if (!open()) Begin();
      Savepoint savepoint(*this);
      if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
        body();
        savepoint.Release();
      } else {
        auto result = body();
        savepoint.Release();
        return result;
      }
    });
  }
  bool open() const;  // a transaction is
  // How often something that was written has been taken back.
  std::uint64_t rollbacks() const { return rollbacks_; }
  // Rolled back when it fails. REQUIRES: open().
  Status CommitOpen();

  // Compressed with zstd, by one context for all texts. Valid until the next call. Throws.
  std::string_view Pack(std::string_view text);
  // For PutText: the hash of a text that is known to be stored, by comparing it with the last ones
  // that came again. Throws.
  std::optional<Hash> Repeated(std::string_view text);
  void Repeat(std::string_view text, const Hash& hash);

 private:
  // Rolled back at its end unless it was committed.
  class Transaction {
   public:
    explicit Transaction(Connection& connection);
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void Commit();

   private:
    Connection& connection_;
    bool committed_ = false;
  };
  // Taken back at its end unless it was released.
  class Savepoint {
   public:
    explicit Savepoint(Connection& connection);
    ~Savepoint();
    Savepoint(const Savepoint&) = delete;
    Savepoint& operator=(const Savepoint&) = delete;
    void Release();

   private:
    Connection& connection_;
    bool released_ = false;
  };
  struct Packer;
  void Begin();
  void Commit();
  void RollBack();  // does not throw

  SQLite::Database database_;
  std::filesystem::path file_;
  std::uint64_t rollbacks_ = 0;
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  // Keys are the program's own literals.
  std::unordered_map<std::string, std::unique_ptr<SQLite::Statement>, TextHash, std::equal_to<>>
      statements_;
  std::unique_ptr<Packer> packer_;
};

// From 32 hex digits; throws kInternal.
Hash ParseHash(std::string_view hex);

// One use of a prepared statement: binds, steps, reads columns from 0, resets at the end.
class Query {
 public:
  template <typename... Values>
  explicit Query(Connection& connection, std::string_view sql, const Values&... values)
      : statement_(connection.Prepare(sql)) {
    (Bind(values), ...);
  }
  ~Query() {
    statement_.tryReset();
    try {
      statement_.clearBindings();
    } catch (const SQLite::Exception&) {  // cannot fail on a statement that was reset
    }
  }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  bool Step() { return statement_.executeStep(); }
  // For statements that return no row; the number of rows changed.
  int Run() { return statement_.exec(); }

  bool IsNull(int column) const { return statement_.isColumnNull(column); }
  std::int64_t Int(int column) const { return statement_.getColumn(column).getInt64(); }
  int Small(int column) const { return statement_.getColumn(column).getInt(); }
  std::string Text(int column) const { return statement_.getColumn(column).getString(); }
  // SQLite has no NaN: it is stored as NULL and read back as NaN.
  double Real(int column) const {
    return IsNull(column) ? std::numeric_limits<double>::quiet_NaN()
                          : statement_.getColumn(column).getDouble();
  }
  std::optional<double> OptionalReal(int column) const {
    return IsNull(column) ? std::nullopt : std::optional(statement_.getColumn(column).getDouble());
  }
  WallTime Time(int column) const {
    return WallTime(
        std::chrono::duration_cast<WallTime::duration>(std::chrono::microseconds(Int(column))));
  }
  grove::Hash Hash(int column) const { return ParseHash(Text(column)); }
  std::optional<grove::Hash> OptionalHash(int column) const {
    return IsNull(column) ? std::nullopt : std::optional(Hash(column));
  }
  template <typename Strong>
  Strong Id(int column) const {
    return IsNull(column) ? Strong() : Strong(Int(column));
  }
  template <typename E>
  E Enum(int column) const {
    const std::string text = Text(column);
    const std::optional<E> value = FromName<E>(text);
    if (!value) Throw(ErrorCode::kInternal, "the store holds an unknown word '" + text + "'");
    return *value;
  }

  SQLite::Statement& statement() { return statement_; }

 private:
  void Bind(std::int64_t value) { statement_.bind(++index_, value); }
  void Bind(int value) { statement_.bind(++index_, value); }
  void Bind(double value) { statement_.bind(++index_, value); }
  void Bind(bool value) { statement_.bind(++index_, value ? 1 : 0); }
  void Bind(const std::string& value) { statement_.bind(++index_, value); }
  void Bind(std::string_view value) { statement_.bind(++index_, std::string(value)); }
  void Bind(const char* value) { Bind(std::string_view(value)); }
  void Bind(const grove::Hash& value) { Bind(value.Hex()); }
  void Bind(std::nullopt_t) { statement_.bind(++index_); }
  void Bind(WallTime value) {
    Bind(static_cast<std::int64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(value.time_since_epoch()).count()));
  }
  template <typename Tag>
  void Bind(grove::Id<Tag> id) {
    if (id) {
      Bind(id.value);
    } else {
      Bind(std::nullopt);
    }
  }
  template <typename T>
  void Bind(const std::optional<T>& value) {
    if (value) {
      Bind(*value);
    } else {
      Bind(std::nullopt);
    }
  }
  template <typename E, typename = std::enable_if_t<std::is_enum_v<E>>>
  void Bind(E value) {
    Bind(Name(value));
  }

  SQLite::Statement& statement_;
  int index_ = 0;
};

// Opens the file for reading, whoever writes it, without ever writing to it or holding it up. A
// file of an older schema is read through a migrated copy in memory. kNotFound, kInvalidInput (not
// ours, newer), kResource.
Result<std::unique_ptr<Connection>> OpenForReading(const std::filesystem::path& file);

// The content-addressed texts. PutText stores what is not there yet; both throw.
Hash PutText(Connection& connection, std::string_view text);
std::string GetText(Connection& connection, const Hash& hash);
// Decompresses a row's content; throws kInternal when it is not what `size` and `hash` promise.
std::string Unpack(const void* content, std::size_t bytes, std::int64_t size, const Hash& hash);

// Reads everything (load.cc). Throws. `live` is left false.
RunData LoadAll(Connection& connection);
// Quantities that are only context; a NaN from a model must not lose the verdict it comes with.
inline double Finite(double value) { return std::isfinite(value) ? value : 0.0; }
// What measuring devices add (measured.cc): evaluations, contests, profiles, baselines. Throw.
void InsertEvaluation(Connection& connection, CandidateId id, const EvaluationRow& evaluation);
bool InsertPromotion(Connection& connection, const PromotionRow& promotion, WallTime now);
void PutProfile(Connection& connection, CandidateId candidate, std::string_view summary,
                std::string_view report, WallTime now);
void PutBaseline(Connection& connection, const BaselineRow& row);
void LoadMeasured(Connection& connection, RunData& data);
// Model calls; none when there is no such row, and none for a reply that is not there yet. Throw.
std::optional<CallRow> FindCallRow(Connection& connection, const CallKey& key);
std::optional<CallRow> FindCallRow(Connection& connection, CallId id);
std::vector<CallRow> CallRowsOf(Connection& connection, int round);
std::optional<llm::Reply> ReplyByKey(Connection& connection, const CallKey& key);

}  // namespace grove::results

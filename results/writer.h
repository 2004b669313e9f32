// The one connection that writes a run: serialises transitions, and lets those that happen together
// share a transaction. Internal to results/. Thread-safe.
//
// With a linger of zero each transition is a transaction of its own. With a linger
//
//   Transact   is durable when it returns: after up to 2 ms, in which those of other threads join
//              it, what was written so far is committed by one of them (group commit). For what
//              leaves the store, and for what may be refused
//   Join       returns when it is written; durable at the next commit, which is at most the linger
//              away. For what only keeps what came: it fails before it has changed anything, or
//              because something is broken
//
// What is committed is always a prefix of what was written, in its order, so a process that is
// killed leaves a state that the run was in a moment before, and nothing that came later.
//
// Errors. A Transact that fails, and a Join that fails before its first change, leave the others
// as they are (a savepoint for each Join would copy most pages that it changes, some thirty a
// candidate). When a Join fails later, a commit fails or SQLite gives a transaction up, transitions
// are lost that were reported as written: from then on everything fails with that error, until the
// run is opened again, which is then as after a kill at the last commit.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/result.h"
#include "results/sql.h"

namespace grove::results {

class Writer {
 public:
  Writer(SQLite::Database database, const std::filesystem::path& file,
         std::chrono::milliseconds linger);
  ~Writer();  // commits what is written
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // `body` takes the Connection, and may throw as sql.h says; T is what it returns.
  template <typename F>
  auto Transact(F&& body) {
    if (!groups()) {
      const std::scoped_lock lock(mutex_);
      return connection_.Transact([&] { return body(connection_); });
    }
    std::uint64_t mine = 0;
    auto result =
        Write([&] { return connection_.JoinApart([&] { return body(connection_); }); }, mine);
    if (!result) return result;
    if (Status done = CommitThrough(mine); !done) result = Failure(std::move(done.error()));
    return result;
  }
  template <typename F>
  auto Join(F&& body) {
    if (!groups()) return Transact(body);
    std::uint64_t mine = 0;
    auto result = Write([&] { return connection_.Join([&] { return body(connection_); }); }, mine);
    if (idle_) wake_.notify_one();
    return result;
  }
  // Reads, what is not committed among it.
  template <typename F>
  auto Read(F&& body) {
    const std::scoped_lock lock(mutex_);
    return connection_.Guard([&] { return body(connection_); });
  }
  // As Read, for a body that begins transactions itself.
  template <typename F>
  auto ReadApart(F&& body) -> Result<std::invoke_result_t<F, Connection&>> {
    const std::scoped_lock lock(mutex_);
    if (Status done = Commit(); !done) return Failure(std::move(done.error()));
    return connection_.Guard([&] { return body(connection_); });
  }

 private:
  bool groups() const { return linger_.count() > 0; }

  // `write` writes one transition to the connection, inside its open transaction.
  template <typename F>
  auto Write(F&& write, std::uint64_t& mine) -> std::invoke_result_t<F> {
    const std::scoped_lock lock(mutex_);
    if (lost_) return Fail(*lost_);
    const bool began = !connection_.open();
    auto result = write();
    if (result) {
      mine = ++written_;
    } else if (!connection_.open() && !began) {
      lost_ = result.error();
    }
    return result;
  }
  Status CommitThrough(std::uint64_t transition);
  Status Commit();  // REQUIRES: mutex_ is held
  void Linger(const std::stop_token& stop);

  const std::chrono::milliseconds linger_;
  const std::chrono::milliseconds gather_;  // what Transact waits for others; part of the linger
  std::mutex mutex_;
  // Guarded by mutex_.
  Connection connection_;
  std::uint64_t written_ = 0;    // transitions
  std::uint64_t committed_ = 0;  // of them
  std::optional<Error> lost_;    // why the writer writes no more
  std::condition_variable_any wake_;
  std::atomic<bool> idle_ = false;  // the thread below waits for a transition
  // Apart from mutex_, so that those who wait for a commit do not wait for its lock once more.
  std::mutex ending_;
  bool gathering_ = false;     // a thread is about to commit; GUARDED_BY(ending_)
  std::uint64_t durable_ = 0;  // transitions; GUARDED_BY(ending_)
  std::condition_variable ended_;
  std::jthread lingerer_;
};

}  // namespace grove::results

// Listeners that do as little as a socket can, for the phases of a request before its reply: one
// that lets nobody connect, one that lets everybody connect and says nothing, and one that notes
// the first line it is sent and hangs up. Thread-compatible.
#pragma once

#include <string>
#include <vector>

namespace grove::testing {

class DeafServer {
 public:
  enum class Kind {
    kUnreachable,  // connections hang: its queue is full
    kSilent,       // connections are made; nobody ever reads or writes
  };
  explicit DeafServer(Kind kind);
  ~DeafServer();
  DeafServer(const DeafServer&) = delete;
  DeafServer& operator=(const DeafServer&) = delete;

  int port() const { return port_; }
  std::string url(const char* scheme = "http") const;
  // How many sockets of this machine are trying to connect to it, and how many have.
  int connecting() const;
  int connected() const;
  // Takes the connection that waits (or the next one), reads up to the first line's end, hangs up,
  // and returns that line. For kSilent.
  std::string TakeLine() const;

 private:
  int Count(int state) const;

  int listener_ = -1;
  int port_ = 0;
  std::vector<int> fillers_;
};

}  // namespace grove::testing

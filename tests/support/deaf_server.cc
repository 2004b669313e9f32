#include "tests/support/deaf_server.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace grove::testing {
namespace {

// As in include/net/tcp_states.h of Linux.
constexpr int kEstablished = 1;
constexpr int kSynSent = 2;

sockaddr_in Local(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

}  // namespace

DeafServer::DeafServer(Kind kind) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Local(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ::bind(listener_, generic, size);
  ::listen(listener_, kind == Kind::kUnreachable ? 0 : 1024);
  ::getsockname(listener_, generic, &size);
  port_ = ntohs(address.sin_port);
  if (kind != Kind::kUnreachable) return;
  // Until one of them hangs.
  for (int i = 0; i < 64; ++i) {
    const int filler = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ::connect(filler, generic, sizeof address);
    pollfd ready{filler, POLLOUT, 0};
    if (::poll(&ready, 1, 100) == 0) {
      ::close(filler);
      return;
    }
    fillers_.push_back(filler);
  }
}

DeafServer::~DeafServer() {
  for (const int filler : fillers_) ::close(filler);
  ::close(listener_);
}

std::string DeafServer::url(const char* scheme) const {
  return fmt::format("{}://127.0.0.1:{}", scheme, port_);
}

int DeafServer::Count(int state) const {
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);
  int count = 0;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, code;
    fields >> slot >> local >> remote >> code;
    const std::string port = remote.substr(remote.find(':') + 1);
    if (std::stoi(port, nullptr, 16) == port_ && std::stoi(code, nullptr, 16) == state) ++count;
  }
  return count;
}
int DeafServer::connecting() const { return Count(kSynSent); }
int DeafServer::connected() const {
  return Count(kEstablished) - static_cast<int>(fillers_.size());
}

std::string DeafServer::TakeLine() const {
  const int peer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  std::string line;
  char byte = 0;
  while (::read(peer, &byte, 1) == 1 && byte != '\n') {
    if (byte != '\r') line += byte;
  }
  ::close(peer);
  return line;
}

}  // namespace grove::testing

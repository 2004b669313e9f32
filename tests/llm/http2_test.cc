// HTTP/2 and certificates, against nghttpd: an HTTP/2 server of Debian's that sends back what is
// posted to it, with a certificate that was made a moment ago and that nobody knows.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/files.h"
#include "llm/sse.h"
#include "tests/llm/transport_fixture.h"
#include "tests/support/program.h"

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Runs a program to its end; its exit code.
int RunToItsEnd(const std::vector<std::string>& words) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1);
    ::dup2(nowhere, 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A port that is free now.
int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

class Nghttpd {
 public:
  explicit Nghttpd(const std::filesystem::path& folder) : folder_(folder), port_(FreePort()) {
    std::filesystem::create_directories(folder / "certificates");
    made_ = RunToItsEnd({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                         Key(), "-out", certificate().string()}) == 0;
    child_ = ::fork();
    if (child_ != 0) return;
    const int out = ::open(log_file().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execl(GROVE_NGHTTPD, "nghttpd", "-v", "--echo-upload", "-a", "127.0.0.1", "-d",
            folder_.c_str(), std::to_string(port_).c_str(), Key().c_str(), certificate().c_str(),
            nullptr);
    ::_exit(127);
  }
  ~Nghttpd() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Nghttpd(const Nghttpd&) = delete;
  Nghttpd& operator=(const Nghttpd&) = delete;

  bool Listens() const {
    for (int i = 0; made_ && i < 600; ++i) {
      if (Log().find("listen 127.0.0.1") != std::string::npos) return true;
      if (::waitpid(child_, nullptr, WNOHANG) != 0) return false;
      std::this_thread::sleep_for(50ms);
    }
    return false;
  }
  std::string url() const { return fmt::format("https://127.0.0.1:{}", port_); }
  std::filesystem::path certificate() const { return folder_ / "certificates" / "cert.pem"; }
  std::string Log() const { return ReadFile(log_file(), 64 << 20).value_or(""); }

 private:
  std::string Key() const { return (folder_ / "key.pem").string(); }
  std::filesystem::path log_file() const { return folder_ / "log"; }

  const std::filesystem::path folder_;
  const int port_;
  bool made_ = false;
  pid_t child_ = -1;
};

class Http2Test : public TransportTest {
 protected:
  void SetUp() override {
    nghttpd_.emplace(folder_.path());
    ASSERT_TRUE(nghttpd_->Listens()) << nghttpd_->Log();
  }
  TransportOptions Trusting() const {
    TransportOptions options = Fast();
    options.ca_bundle = nghttpd_->certificate().string();
    return options;
  }
  HttpRequest To(const std::string& path, std::string body) const {
    HttpRequest request;
    request.url = nghttpd_->url() + path;
    request.body = std::move(body);
    return request;
  }
  Result<HttpOutcome> PostOnce() {
    BodyReader reader;
    auto outcome = transport_->Post(To("/", "text"), reader, {});
    if (outcome) {
      EXPECT_EQ(reader.body, "text");
    }
    return outcome;
  }

  testing::ScratchFolder folder_;
  std::optional<Nghttpd> nghttpd_;
};

TEST_F(Http2Test, ManyStreamsShareOneConnection) {
  constexpr int kStreams = 20;
  Connect(Trusting());
  // Long bodies, so that they are on their way at the same time.
  std::vector<std::string> bodies;
  for (int i = 0; i < kStreams; ++i) {
    bodies.push_back(fmt::format("body {} ", i) +
                     std::string(std::size_t{1} << 17, static_cast<char>('a' + i)));
  }
  std::vector<BodyReader> readers(kStreams);
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kStreams; ++i) {
      callers.emplace_back([&, i] {
        const auto outcome = transport_->Post(To(fmt::format("/{}", i), bodies[i]), readers[i], {});
        EXPECT_TRUE(outcome) << outcome.error().message;
      });
    }
  }
  for (int i = 0; i < kStreams; ++i) EXPECT_EQ(readers[i].body, bodies[i]) << i;
  // What the server saw: one connection, a stream for each request, their frames interleaved.
  const std::string log = nghttpd_->Log();
  EXPECT_THAT(log, HasSubstr("The negotiated protocol: h2"));
  std::set<int> connections;
  std::map<int, std::pair<std::size_t, std::size_t>> frames;  // by stream: first and last line
  std::istringstream lines(log);
  std::size_t number = 0;
  const std::regex data(R"(\[id=(\d+)\].* recv DATA frame .*stream_id=(\d+)>.*)");
  for (std::string line; std::getline(lines, line); ++number) {
    std::smatch match;
    if (line.find("recv DATA") == std::string::npos || !std::regex_match(line, match, data)) {
      continue;
    }
    connections.insert(std::stoi(match[1]));
    auto& span = frames.try_emplace(std::stoi(match[2]), number, number).first->second;
    span.second = number;
  }
  EXPECT_EQ(connections.size(), 1U);
  EXPECT_EQ(frames.size(), static_cast<std::size_t>(kStreams));
  std::size_t most = 0;
  for (const auto& [stream, span] : frames) {
    std::size_t open = 0;
    for (const auto& [other, its] : frames) {
      open += its.first <= span.first && span.first <= its.second ? 1 : 0;
    }
    most = std::max(most, open);
  }
  EXPECT_GE(most, 4U) << "streams were open beside each other";
}

TEST_F(Http2Test, AStreamOfEventsIsReadOverIt) {
  Connect(Trusting());
  class Events final : public ResponseReader {
   public:
    void Begin(const ResponseHead& head) override { status = head.status; }
    bool Read(std::string_view bytes) override {
      EXPECT_TRUE(parser.Feed(bytes, [this](const SseEvent& event) {
        data += event.data + "|";
        return true;
      }));
      return true;
    }
    std::optional<AttemptFailure> End() override { return std::nullopt; }
    AttemptFailure Refused(const ResponseHead&, std::string_view) override { return {}; }
    SseParser parser;
    std::string data;
    int status = 0;
  };
  Events reader;
  const auto outcome = transport_->Post(
      To("/events", "data: one\n\n: note\n\ndata: two\r\n\r\ndata: [DONE]\n\n"), reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(reader.status, 200);
  EXPECT_EQ(reader.data, "one|two|[DONE]|");
}

TEST_F(Http2Test, AStopEndsOneStreamAndNotItsConnection) {
  Connect(Trusting());
  std::stop_source stop;
  BodyReader reader;
  // Stopped as soon as its reply begins.
  std::jthread stopper([&] {
    while (reader.begun == 0) std::this_thread::sleep_for(1ms);
    stop.request_stop();
  });
  const auto stopped = transport_->Post(To("/long", std::string(std::size_t{8} << 20, 'x')), reader,
                                        stop.get_token());
  if (!stopped) {
    EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  }
  EXPECT_TRUE(PostOnce());
}

TEST_F(Http2Test, ACertificateThatNobodyKnowsIsRefusedAndTheVariableNamed) {
  Connect();
  const auto outcome = PostOnce();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().message, HasSubstr("SSL_CERT_FILE"));
  EXPECT_EQ(LogOf(0).size(), 0U) << "another attempt would not know it either";
}

TEST_F(Http2Test, TheVariablesOfTheEnvironmentNameCertificates) {
  const auto accepted = [&](const char* file, const char* bundle, const char* folder) {
    const Variable one("SSL_CERT_FILE", file);
    const Variable two("CURL_CA_BUNDLE", bundle);
    const Variable three("SSL_CERT_DIR", folder);
    Connect(TransportOptions::FromEnvironment());
    return PostOnce().has_value();
  };
  const std::string file = nghttpd_->certificate().string();
  const std::string folder = nghttpd_->certificate().parent_path().string();
  // With the names that OpenSSL looks for.
  ASSERT_EQ(RunToItsEnd({"openssl", "rehash", folder}), 0);
  EXPECT_FALSE(accepted(nullptr, nullptr, nullptr));
  EXPECT_TRUE(accepted(file.c_str(), nullptr, nullptr));
  EXPECT_TRUE(accepted(nullptr, file.c_str(), nullptr));
  EXPECT_FALSE(accepted(file.c_str(), "/dev/null", nullptr)) << "CURL_CA_BUNDLE comes first";
  EXPECT_TRUE(accepted(nullptr, nullptr, folder.c_str()));
}

}  // namespace
}  // namespace grove::llm

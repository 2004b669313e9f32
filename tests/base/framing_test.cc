#include "base/framing.h"

#include <array>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"

namespace grove {
namespace {

using Kind = FrameError::Kind;
using std::chrono::milliseconds;

class FramingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    a_ = FileDescriptor(ends[0]);
    b_ = FileDescriptor(ends[1]);
  }
  void SendRaw(std::string_view bytes) {
    ASSERT_EQ(::send(a_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string Header(std::string_view magic, char version, char type, char size) {
    return std::string(magic) + version + '\0' + type + '\0' + size + std::string(7, '\0');
  }
  FileDescriptor a_;
  FileDescriptor b_;
};

TEST_F(FramingTest, FramesArriveWholeAndInOrder) {
  ASSERT_TRUE(WriteFrame(a_.get(), 7, "first", After(milliseconds(5000))));
  ASSERT_TRUE(WriteFrame(a_.get(), 65535, "", After(milliseconds(5000))));
  auto first = ReadFrame(b_.get(), 5, After(milliseconds(5000)));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->type, 7);
  EXPECT_EQ(first->payload, "first");
  auto second = ReadFrame(b_.get(), 5, After(milliseconds(5000)));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->type, 65535);
  EXPECT_EQ(second->payload, "");
}

TEST_F(FramingTest, APayloadLargerThanTheSocketsBufferPassesInParts) {
  std::string large(std::size_t{8} << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31);
  std::thread writer(
      [&] { EXPECT_TRUE(WriteFrame(a_.get(), 1, large, After(milliseconds(60000)))); });
  auto frame = ReadFrame(b_.get(), large.size(), After(milliseconds(60000)));
  writer.join();
  ASSERT_TRUE(frame) << frame.error().message;
  EXPECT_TRUE(frame->payload == large);
}

TEST_F(FramingTest, TheLayoutIsTheDocumentedOne) {
  ASSERT_TRUE(WriteFrame(a_.get(), 3, "x", After(milliseconds(5000))));
  std::array<char, 32> bytes{};
  ASSERT_EQ(::recv(b_.get(), bytes.data(), bytes.size(), 0), 17);
  EXPECT_EQ(std::string(bytes.data(), 17), Header("GRVF", 1, 3, 1) + "x");
}

TEST_F(FramingTest, ALimitIsCheckedBeforeThePayloadIsRead) {
  SendRaw(Header("GRVF", 1, 3, 9));
  const auto frame = ReadFrame(b_.get(), 8, After(milliseconds(5000)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, Kind::kTooLarge);
}

TEST_F(FramingTest, AnotherVersionIsRefusedByItsNumber) {
  SendRaw(Header("GRVF", 2, 3, 0));
  const auto frame = ReadFrame(b_.get(), 8, After(milliseconds(5000)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, Kind::kMalformed);
  EXPECT_NE(frame.error().message.find("version 2"), std::string::npos);
}

TEST_F(FramingTest, BytesThatAreNoFrameAreRefused) {
  SendRaw("HTTP/1.1 200 OK\r\n");
  const auto frame = ReadFrame(b_.get(), 8, After(milliseconds(5000)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, Kind::kMalformed);
}

TEST_F(FramingTest, ASilentPeerIsATimeout) {
  const auto frame = ReadFrame(b_.get(), 8, After(milliseconds(20)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, Kind::kTimeout);
}

TEST_F(FramingTest, APeerThatDoesNotReadIsATimeoutOfTheWriter) {
  const std::string large(std::size_t{8} << 20, 'x');
  const auto sent = WriteFrame(a_.get(), 1, large, After(milliseconds(50)));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, Kind::kTimeout);
}

TEST_F(FramingTest, AFrameCutByAClosedPeerIsClosed) {
  SendRaw(Header("GRVF", 1, 3, 9) + "part");
  a_.Close();
  const auto frame = ReadFrame(b_.get(), 100, After(milliseconds(5000)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, Kind::kClosed);
}

TEST_F(FramingTest, WritingToAClosedPeerIsAValueAndNotSigpipe) {
  b_.Close();
  const auto sent = WriteFrame(a_.get(), 1, "x", After(milliseconds(5000)));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, Kind::kClosed);
}

}  // namespace
}  // namespace grove

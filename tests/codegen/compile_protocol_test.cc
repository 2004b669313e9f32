#include "codegen/compile_protocol.h"

#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

NvrtcOutput SampleOutput() {
  return {6, "NVRTC_ERROR_COMPILATION", "log", "ptx", std::string("\0\x7f", 2), Milliseconds(1.5)};
}

TEST(CompileProtocol, MessagesComeBackAsSent) {
  const auto hello = DecodeHello(Encode(Hello{"no", 13, 2}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->error, "no");
  EXPECT_EQ(hello->major, 13);
  EXPECT_EQ(hello->minor, 2);

  const auto call = DecodeCall(Encode(CompileCall{"source", {"-a", ""}}));
  ASSERT_TRUE(call);
  EXPECT_EQ(call->source, "source");
  EXPECT_EQ(call->options, (std::vector<std::string>{"-a", ""}));

  const std::vector<Header> headers = {{"a.h", "text"}, {"b.h", ""}};
  EXPECT_EQ(DecodeHeaders(Encode(headers)), headers);

  const auto output = DecodeOutput(Encode(SampleOutput()));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->result, 6);
  EXPECT_EQ(output->result_name, "NVRTC_ERROR_COMPILATION");
  EXPECT_EQ(output->cubin, std::string("\0\x7f", 2));
  EXPECT_EQ(output->time.count(), 1.5);
}

TEST(CompileProtocol, EveryCutMessageIsRefused) {
  const std::string output = Encode(SampleOutput());
  for (std::size_t cut = 0; cut < output.size(); ++cut) {
    EXPECT_FALSE(DecodeOutput(std::string_view(output).substr(0, cut))) << cut;
  }
  const std::string call = Encode(CompileCall{"source", {"-a", "-b"}});
  for (std::size_t cut = 0; cut < call.size(); ++cut) {
    EXPECT_FALSE(DecodeCall(std::string_view(call).substr(0, cut))) << cut;
  }
  const std::string headers = Encode(std::vector<Header>{{"a.h", "text"}});
  for (std::size_t cut = 0; cut < headers.size(); ++cut) {
    EXPECT_FALSE(DecodeHeaders(std::string_view(headers).substr(0, cut))) << cut;
  }
}

TEST(CompileProtocol, BytesAfterAMessageAreRefused) {
  EXPECT_FALSE(DecodeHello(Encode(Hello{}) + "x"));
  EXPECT_FALSE(DecodeOutput(Encode(SampleOutput()) + "x"));
}

TEST(CompileProtocol, ACountOfBillionsIsRefused) {
  EXPECT_FALSE(DecodeHeaders(std::string(8, '\x7f')));
}

}  // namespace
}  // namespace grove::codegen

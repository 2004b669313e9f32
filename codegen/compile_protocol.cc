#include "codegen/compile_protocol.h"

#include "base/wire.h"

namespace grove::codegen {
namespace {

constexpr std::size_t kTextPrefix = 8;  // the least bytes of one text on the wire

}  // namespace

std::string Encode(const Hello& hello) {
  WireWriter out;
  out.Text(hello.error);
  out.I64(hello.major);
  out.I64(hello.minor);
  return std::move(out).Take();
}

std::string Encode(const std::vector<Header>& headers) {
  WireWriter out;
  out.U64(headers.size());
  for (const auto& [name, text] : headers) {
    out.Text(name);
    out.Text(text);
  }
  return std::move(out).Take();
}

std::string Encode(const CompileCall& call) {
  WireWriter out;
  out.Text(call.source);
  out.U64(call.options.size());
  for (const std::string& option : call.options) out.Text(option);
  return std::move(out).Take();
}

std::string Encode(const NvrtcOutput& output) {
  WireWriter out;
  out.I64(output.result);
  out.Text(output.result_name);
  out.Text(output.log);
  out.Text(output.ptx);
  out.Text(output.cubin);
  out.F64(output.time.count());
  return std::move(out).Take();
}

std::optional<Hello> DecodeHello(std::string_view payload) {
  WireReader in(payload);
  Hello hello;
  hello.error = in.Text();
  hello.major = static_cast<int>(in.I64());
  hello.minor = static_cast<int>(in.I64());
  if (!in.AtEnd()) return std::nullopt;
  return hello;
}

std::optional<std::vector<Header>> DecodeHeaders(std::string_view payload) {
  WireReader in(payload);
  std::vector<Header> headers(in.Count(2 * kTextPrefix));
  for (auto& [name, text] : headers) {
    name = in.Text();
    text = in.Text();
  }
  if (!in.AtEnd()) return std::nullopt;
  return headers;
}

std::optional<CompileCall> DecodeCall(std::string_view payload) {
  WireReader in(payload);
  CompileCall call;
  call.source = in.Text();
  call.options.resize(in.Count(kTextPrefix));
  for (std::string& option : call.options) option = in.Text();
  if (!in.AtEnd()) return std::nullopt;
  return call;
}

std::optional<NvrtcOutput> DecodeOutput(std::string_view payload) {
  WireReader in(payload);
  NvrtcOutput output;
  output.result = static_cast<int>(in.I64());
  output.result_name = in.Text();
  output.log = in.Text();
  output.ptx = in.Text();
  output.cubin = in.Text();
  output.time = Milliseconds(in.F64());
  if (!in.AtEnd()) return std::nullopt;
  return output;
}

}  // namespace grove::codegen

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/headers.h"
#include "codegen/program.h"
#include "codegen/source_lexer.h"

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Complaint(std::string_view source) {
  const Status status = CheckSource(source);
  return status ? "" : status.error().message;
}

TEST(SourceCheckTest, OrdinaryKernelsPass) {
  EXPECT_EQ(Complaint(R"cuda(
#include <cuda_fp16.h>
#include "cuda_bf16.h"
#  include   <cooperative_groups/reduce.h>  // note
#include <cuda/std/array>
#include <cub/block/block_reduce.cuh>
#include <cuda/ptx>
#pragma once
#define TILE 16
#define CHECK(x) \
  do {           \
    (void)(x);   \
  } while (0)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#endif
/* a comment with #include "/etc/passwd" and "quotes' */
// and another: #include "/etc/passwd" don't
extern "C" __global__ void __launch_bounds__(256, 2) k(const float* __restrict__ x, float* y) {
  const char* text = "#include \"/etc/passwd\"";
  const char* raw = R"(#include "/etc/passwd" ' " \ )";
  int big = 1'000'000;
  char quote = '\'', other = '"';
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0}, {%1};\n" : "=f"(y[0]) : "r"(big));
  asm("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(0), "l"(x));
#pragma unroll 4
  for (int i = 0; i < TILE; ++i) y[i] = x[i] + cuda<::std::size_t>(i);
  _Pragma("unroll") for (;;) {}
}
)cuda"),
            "");
}

TEST(SourceCheckTest, UnicodeInCommentsAndStringsPasses) {
  EXPECT_EQ(Complaint("// Größe in µs, 行列\nconst char* s = \"é\";\n"), "");
  EXPECT_EQ(Complaint("\xef\xbb\xbfint a;\n"), "");
}

TEST(SourceCheckTest, EmptyAndWindowsTextPass) {
  EXPECT_EQ(Complaint(""), "");
  EXPECT_EQ(Complaint("#include <cmath>\r\n#define A \\\r\n  1\r\nint a;\r\n"), "");
}

struct Refused {
  const char* name;
  std::string source;
  const char* message;
};
void PrintTo(const Refused& refused, std::ostream* os) { *os << refused.name; }

class RefusedSourceTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedSourceTest, IsRefusedWithTheReason) {
  EXPECT_THAT(Complaint(GetParam().source), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Include, RefusedSourceTest,
    ::testing::Values(
        Refused{
            "AbsolutePath", "#include \"/etc/hostname\"\n",
            "line 1, column 10: #include of '/etc/hostname' is not allowed; allowed: cuda_fp16.h"},
        Refused{"AngleAbsolutePath", "int a;\n#include </etc/hostname>\n", "line 2, column 10"},
        Refused{"RelativePath", "#include \"../secret.h\"\n", "'../secret.h'"},
        Refused{"DotDotInFolder", "#include <cuda/../../../etc/hostname>\n", "not allowed"},
        Refused{"DotInFolder", "#include <cuda/./std/array>\n", "not allowed"},
        Refused{"DoubledSlash", "#include <cub//x.h>\n", "not allowed"},
        Refused{"Backslash", "#include <cuda/std\\array>\n", "not allowed"},
        Refused{"FolderAlone", "#include <cuda/>\n", "not allowed"},
        Refused{"Host", "#include <iostream>\n", "'iostream'"},
        Refused{"HostVector", "#include <vector>\n", "'vector'"},
        Refused{"Torch", "#include <torch/extension.h>\n", "not allowed"},
        Refused{"Splice", "#inc\\\nlude \"/etc/hostname\"\n", "'/etc/hostname'"},
        Refused{"SpliceInHash", "#\\\n\\\ninclude \"/etc/hostname\"\n", "'/etc/hostname'"},
        Refused{"SpliceWindows", "#inc\\\r\nlude \"/etc/hostname\"\n", "'/etc/hostname'"},
        Refused{"SpliceInPath", "#include \"/etc/ho\\\nstname\"\n", "'/etc/hostname'"},
        Refused{"CommentBefore", "/* a */ # /* b */ include /* c */ \"/etc/hostname\"\n",
                "'/etc/hostname'"},
        Refused{"CommentLinesBefore", "/* a \n */ #include \"/etc/hostname\"\n", "'/etc/hostname'"},
        Refused{"CommentLinesInside", "# /* a \n */ include \"/etc/hostname\"\n",
                "'/etc/hostname'"},
        Refused{"CommentLinesBehindCode", "int a; /* \n */ #include \"/etc/hostname\"\n",
                "a directive behind a comment that spans lines"},
        Refused{"Digraph", "%:include \"/etc/hostname\"\n", "'/etc/hostname'"},
        Refused{"DigraphSplice", "%\\\n:include \"/etc/hostname\"\n", "'/etc/hostname'"},
        Refused{"Trigraph", "?\?=include \"/etc/hostname\"\n", "line 1, column 1: trigraph"},
        Refused{"TrigraphSplice", "// what?\?/\n#include <cmath>\n", "trigraph"},
        Refused{"VerticalTab", "#\v\finclude \"/etc/hostname\"\n", "'/etc/hostname'"},
        Refused{"Macro", "#define F \"/etc/hostname\"\n#include F\n",
                "line 2, column 10: #include of a macro"},
        Refused{"MacroFunction", "#define S(x) #x\n#include S(/etc/hostname)\n", "of a macro"},
        Refused{"Nothing", "#include\n", "without a header"},
        Refused{"Unterminated", "#include \"cmath\n", "the header name does not end"},
        Refused{"IncludeNext", "#include_next <cmath>\n", "#include_next is not allowed"},
        Refused{"Import", "#import \"/etc/hostname\"\n", "#import is not allowed"},
        Refused{"ModuleImport", "import \"/etc/hostname\";\n", "import is not allowed"},
        Refused{"Embed", "const char a[] = {\n#embed \"/etc/hostname\"\n};\n",
                "#embed is not allowed"},
        Refused{"InSkippedGroup", "#if 0\n#include \"/etc/hostname\"\n#endif\n", "'/etc/hostname'"},
        Refused{"HiddenInRawString",
                "const char* a = R\"x( )y\" )x\";\n#include \"/etc/hostname\"\n", "line 2"},
        Refused{"FakeRawString", "#define FOOR\nFOOR\"(\"\n#include \"/etc/hostname\"\n//)\"\n",
                "line 3"},
        Refused{"QuoteInComment", "// '\n#include \"/etc/hostname\"\n// '\n", "line 2"},
        Refused{"CommentInString", "const char* a = \"/*\";\n#include \"/etc/hostname\"\n// */\n",
                "line 2"},
        Refused{"DigitSeparator", "int a = 1'0;\n#include \"/etc/hostname\"\nint b = 1'0;\n",
                "line 2"},
        Refused{"Line", "#line 1 \"/etc/hostname\"\n", "#line is not allowed"},
        Refused{"LineMarker", "# 1 \"/etc/hostname\"\n", "#1 is not allowed"},
        Refused{"Ident", "#ident \"x\"\n", "#ident is not allowed"}),
    [](const auto& refused) { return refused.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Probe, RefusedSourceTest,
    ::testing::Values(
        Refused{"HasInclude", "#if __has_include(\"/etc/hostname\")\n#endif\n", "'__has_include'"},
        Refused{"HasIncludeNext", "#if __has_include_next(<a>)\n#endif\n", "not allowed"},
        Refused{"HasIncludeElif", "#if 0\n#elif __has_include(</etc/hostname>)\n#endif\n",
                "not allowed"},
        Refused{"HasIncludeInMacro", "#define H __has_include\n", "'__has_include'"},
        Refused{"HasIncludeSplice", "#if __has_\\\ninclude(</etc/hostname>)\n#endif\n",
                "not allowed"},
        Refused{"HasEmbed", "#if __has_embed(\"/etc/hostname\")\n#endif\n", "not allowed"},
        // NVRTC 13.0 does expand this one.
        Refused{"HasIncludePasted",
                "#define CAT(a, b) a##b\n#if CAT(__has_, include)(\"/etc/hostname\")\n#endif\n",
                "line 2"},
        Refused{"HasIncludePastedFromUnderscore",
                "#define CAT(a, b) a##b\n#if CAT(_, _has_inclu ## de)(</etc/hostname>)\n#endif\n",
                "'_' in a directive"},
        Refused{"HasIncludeOfALibrary", "#if _CCCL_HAS_INCLUDE(</etc/hostname>)\n#endif\n",
                "not allowed"},
        Refused{"PragmaDependency", "#pragma GCC dependency \"/etc/hostname\"\n", "GCC dependency"},
        Refused{"PragmaUnknown", "#pragma include_alias(\"a\", \"b\")\n", "'include_alias'"},
        Refused{"PragmaOperator", "_Pragma(\"GCC dependency \\\"/etc/hostname\\\"\")\n",
                "_Pragma('GCC')"},
        Refused{"PragmaOperatorOfMacro", "#define P(x) _Pragma(#x)\n", "needs a string literal"}),
    [](const auto& refused) { return refused.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Assembler, RefusedSourceTest,
    ::testing::Values(
        Refused{"Incbin", "asm(\".incbin \\\"/etc/hostname\\\"\");\n", ".incbin is not allowed"},
        Refused{"UpperCase", "asm(\".INCBIN x\");\n", ".incbin"},
        Refused{"Include", "asm(\".include \\\"/etc/hostname\\\"\");\n", ".include"},
        Refused{"File", "asm(\".file 1 \\\"/etc/hostname\\\"\");\n", ".file"},
        Refused{"HexEscape", "asm(\"\\x2eincbin x\");\n", ".incbin"},
        Refused{"OctalEscape", "asm(\"\\056\\151ncbin x\");\n", ".incbin"},
        Refused{"UniversalEscape", "asm(\"\\u002eincbin x\");\n", ".incbin"},
        Refused{"Concatenated", "asm(\".\" \"inc\"\n  /* x */ \"bin x\");\n", ".incbin"},
        Refused{"Raw", "asm volatile(R\"(.incbin x)\");\n", ".incbin"},
        Refused{"BlankInside", "asm(\". incbin x\");\n", ".incbin"},
        Refused{"Splice", "asm(\".inc\\\nbin x\");\n", ".incbin"},
        Refused{"Keyword", "__asm__ __volatile__(\".incbin x\");\n", ".incbin"},
        Refused{"InMacro", "#define LOAD asm(\".incbin x\")\n", ".incbin"},
        Refused{"PieceFromMacro", "#define DOT \".\"\nasm(DOT \"incbin x\");\n", ".incbin"},
        Refused{"PiecesFromMacros",
                "#define A \".\"\n#define B \"inc\"\n#define C A B\nasm(C \"bin x\");\n",
                ".incbin"},
        Refused{"Stringised", "#define ASM(x) asm(#x)\nASM(.incbin \"/etc/hostname\");\n",
                "'incbin'"},
        Refused{"StringisedInclude", "#define ASM(x) asm(#x)\nASM(.include \"/x\");\n",
                "'include'"},
        Refused{"Nested", "asm(asm(\"a\"));\n", "asm inside asm"}),
    [](const auto& refused) { return refused.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Text, RefusedSourceTest,
    ::testing::Values(
        Refused{"Nul", std::string("int a;\n\0int b;", 14),
                "line 2, column 1: control character 0x00"},
        Refused{"NulInComment", std::string("// \0", 4), "control character 0x00"},
        Refused{"Escape", "// \x1b[31m\n", "control character 0x1b"},
        Refused{"InvalidUtf8", "int a; // \xff\n", "line 1, column 11: invalid UTF-8"},
        Refused{"OverlongUtf8", "// \xc0\xaf\n", "invalid UTF-8"},
        Refused{"CutUtf8", "// \xe2\x82", "invalid UTF-8"},
        Refused{"Surrogate", "// \xed\xa0\x80\n", "invalid UTF-8"},
        Refused{"BeyondUnicode", "// \xf4\x90\x80\x80\n", "invalid UTF-8"},
        Refused{"BidiOverride", "/* \xe2\x80\xae */\n", "bidirectional control character U+202E"},
        Refused{"BidiIsolate", "/* \xe2\x81\xa6 */\n", "U+2066"},
        Refused{"RightToLeftMark", "/* \xe2\x80\x8f */\n", "U+200F"},
        Refused{"ArabicMark", "/* \xd8\x9c */\n", "U+061C"},
        Refused{"LoneCarriageReturn", "// a\r#include \"/etc/hostname\"\n", "carriage return"},
        Refused{"BlankAfterBackslash", "// a \\ \n#include <cmath>\n",
                "blanks after the backslash"},
        Refused{"UnterminatedString", "const char* a = \"x\nint b;\n",
                "line 1, column 17: the literal"},
        Refused{"UnterminatedCharacter", "#error don't\n", "the literal has no closing '"},
        Refused{"UnterminatedComment", "int a; /* x", "line 1, column 8: the comment does not end"},
        Refused{"UnterminatedRawString", "const char* a = R\"(x\";\n",
                "the raw string does not end"},
        Refused{"RawStringAcrossDirective", "#define A R\"(\n)\"\n", "over several lines"},
        Refused{"RawStringSpliced", "const char* a = R\\\n\"(x)\";\n", "malformed raw string"},
        Refused{"TooLarge", std::string((std::size_t{1} << 20) + 1, ' '), "at most 1048576"},
        Refused{"FiftyMegabytes", std::string(std::size_t{50} << 20, 'a'), "at most 1048576"}),
    [](const auto& refused) { return refused.param.name; });

TEST(SourceCheckTest, PositionsCountWrittenLines) {
  EXPECT_THAT(Complaint("#define A \\\n  1\n\n  #include <iostream>\n"),
              StartsWith("line 4, column 12:"));
  EXPECT_THAT(Complaint("int a;\r\nint b;\r\n#include <iostream>\r\n"),
              StartsWith("line 3, column 10:"));
}

// Each of these is quadratic for a naive scanner; a megabyte must not take long. The bound is on
// work that would take minutes, so it holds on any machine: the test runner's time-out.
TEST(SourceCheckTest, AMegabyteOfRepeatedHostilityIsScanned) {
  for (const std::string_view piece :
       {"asm(", "#include <cmath>\n", "/**/", "R\"(", "\\\n", "#define A A A\n", "((((", "\"",
        "_Pragma(", "#if A\n", "'", "#define B \"b\" B\n", "__global__ (", "__global__ f("}) {
    std::string source;
    while (source.size() + piece.size() < kMaxSourceBytes) source += piece;
    (void)MakeProgram(source, "");
  }
  std::string nested;
  while (nested.size() < kMaxSourceBytes / 3) nested += "__global__(";
  nested += std::string(nested.size() / 11, ')');
  EXPECT_FALSE(MakeProgram(nested, ""));
}

TEST(SourceCheckTest, StringMacrosThatDoubleAreRefused) {
  std::string source = "#define A0 \"0123456789\"\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "A" + std::to_string(i - 1);
    source += "#define A" + std::to_string(i) + " " + before + " " + before + "\n";
  }
  EXPECT_THAT(Complaint(source), HasSubstr("string macros expand to more than"));
}

TEST(HeadersTest, TheServedHeadersAreAllowed) {
  for (const auto& [name, content] : BuiltinHeaders()) {
    EXPECT_TRUE(HeaderAllowed(name)) << name;
    EXPECT_THAT(content, StartsWith("#pragma once\n")) << name;
  }
}

TEST(HeadersTest, HabitualHeadersAreServed) {
  const auto headers = BuiltinHeaders();
  for (const std::string_view name :
       {"cuda_runtime.h", "stdint.h", "cstdint", "float.h", "cfloat", "limits.h", "climits",
        "math.h", "cmath", "stdio.h", "cstdio", "assert.h", "cassert", "stddef.h", "cstddef",
        "string.h", "device_launch_parameters.h", "type_traits", "algorithm"}) {
    EXPECT_TRUE(std::any_of(headers.begin(), headers.end(), [&](const auto& header) {
      return header.first == name;
    })) << name;
  }
}

std::vector<std::string> Texts(std::string_view source) {
  const Result<LexedSource> lexed = LexSource(source);
  std::vector<std::string> texts;
  if (!lexed) return {lexed.error().message};
  for (const SourceToken& token : lexed->tokens) texts.emplace_back(token.text);
  return texts;
}

TEST(SourceLexerTest, TokensSeeThroughSplicesAndDigraphs) {
  using ::testing::ElementsAre;
  EXPECT_THAT(Texts("in\\\nt a<:3:> = <%1%>;"),
              ElementsAre("int", "a", "[", "3", "]", "=", "{", "1", "}", ";"));
  EXPECT_THAT(Texts("a<::b>"), ElementsAre("a", "<", ":", ":", "b", ">"));
  EXPECT_THAT(Texts("1.5e-3f+0x1p+4 .5"), ElementsAre("1.5e-3f", "+", "0x1p+4", ".5"));
  EXPECT_THAT(Texts("u8\"a\\\"b\" L'x'"), ElementsAre("u8\"a\\\"b\"", "L'x'"));
  EXPECT_THAT(Texts("R\"d(a\\\nb)d\" c"), ElementsAre("R\"d(a\\\nb)d\"", "c"));
}

TEST(SourceLexerTest, DecodesEscapes) {
  const Result<LexedSource> lexed = LexSource(R"x("a\n\x41\102\\\"\u0043" R"(\n)")x");
  ASSERT_TRUE(lexed) << lexed.error().message;
  ASSERT_EQ(lexed->tokens.size(), 2U);
  EXPECT_EQ(DecodeLiteral(lexed->tokens[0]), "a\nAB\\\"C");
  EXPECT_EQ(DecodeLiteral(lexed->tokens[1]), "\\n");
}

}  // namespace
}  // namespace grove::codegen

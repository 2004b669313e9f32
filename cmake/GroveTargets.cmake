# One interface target carries the warnings and language options of every target of ours.
add_library(grove_options INTERFACE)
target_compile_options(grove_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual
  -Wno-missing-field-initializers
  $<$<BOOL:${GROVE_WERROR}>:-Werror>)
# GCC 12 reports overlapping copies inside std::string::assign that cannot be (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(grove_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND GROVE_MARCH)
  target_compile_options(grove_options INTERFACE -march=${GROVE_MARCH})
endif()
# IEEE arithmetic is a contract here (the emulator and the checks): never contract a*b+c silently.
target_compile_options(grove_options INTERFACE -ffp-contract=off)
if(GROVE_SANITIZE)
  target_compile_options(grove_options INTERFACE
    -fsanitize=${GROVE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(grove_options INTERFACE -fsanitize=${GROVE_SANITIZE})
endif()
if(GROVE_FUZZ)
  set(GROVE_FUZZ_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_compile_options(grove_options INTERFACE ${GROVE_FUZZ_FLAGS})
  target_link_options(grove_options INTERFACE ${GROVE_FUZZ_FLAGS})
endif()
find_program(GROVE_LLD NAMES ld.lld)
if(GROVE_LLD AND NOT GROVE_SANITIZE)
  target_link_options(grove_options INTERFACE -fuse-ld=lld)
endif()

# grove_library(NAME SOURCES a.cc ... HEADERS a.h ... DEPS targets... [PRIVATE_DEPS targets...])
# One library per folder. Headers are listed so that each is compiled alone in CI
# (target all_verify_interface_header_sets).
function(grove_library name)
  cmake_parse_arguments(A "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${A_HEADERS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${A_DEPS} PRIVATE grove_options ${A_PRIVATE_DEPS})
endfunction()

# grove_test(NAME SOURCES a_test.cc ... DEPS targets... [LABELS gpu] [TIMEOUT seconds])
# One executable per folder; its main (tests/support/test_main.cc) fails when nothing ran.
function(grove_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS} grove_test_support grove_options)
  add_test(NAME ${name} COMMAND ${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml)
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}")
endfunction()

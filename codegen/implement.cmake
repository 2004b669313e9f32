# The prompts for kernel programs; included by codegen/CMakeLists.txt.
grove_library(grove_implement
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/implement.cc
  HEADERS ${CMAKE_CURRENT_LIST_DIR}/implement.h
  DEPS grove_ideas grove_llm grove_base
  PRIVATE_DEPS fmt::fmt)

install(DIRECTORY ${CMAKE_CURRENT_LIST_DIR}/prompts/ DESTINATION share/grove/prompts/codegen
        FILES_MATCHING PATTERN "*.mustache")

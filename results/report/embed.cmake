# cmake -DOUT=assets.cc "-DASSETS=kName=file|kOther=file+file" -P embed.cmake
# Writes each file as a string of C++; files joined by + follow each other. Strings are cut into
# pieces, since compilers need not take a literal of more than 64 KiB.
string(REPLACE "|" ";" pairs "${ASSETS}")
set(code "#include <string_view>\n\nnamespace grove::results::asset {\n")
foreach(pair IN LISTS pairs)
  string(REGEX MATCH "^([A-Za-z0-9]+)=(.*)$" _ "${pair}")
  set(name ${CMAKE_MATCH_1})
  string(REPLACE "+" ";" files "${CMAKE_MATCH_2}")
  set(literal "")
  foreach(file IN LISTS files)
    # Read as hex and turned into bytes' escapes: a file may hold what ends a raw string, and
    # CMake's own lists would take its brackets and semicolons for theirs.
    file(READ "${file}" hex HEX)
    string(LENGTH "${hex}" length)
    set(at 0)
    while(at LESS length)
      string(SUBSTRING "${hex}" ${at} 4000 piece)
      string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" piece "${piece}")
      string(APPEND literal "\n    \"${piece}\"")
      math(EXPR at "${at} + 4000")
    endwhile()
  endforeach()
  string(APPEND code "extern const std::string_view ${name};\nconst std::string_view ${name}{${literal}};\n")
endforeach()
string(APPEND code "}  // namespace grove::results::asset\n")
file(WRITE "${OUT}" "${code}")

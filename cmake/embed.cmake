# Writes texts as C arrays: cmake -DOUTPUT=sources.c -DDIRECTORY=src/cuda/kernels -DTABLE=falt_cuda_sources -P embed.cmake.
# Every file of the directory becomes an entry of the table under its path within it.
file(GLOB_RECURSE files RELATIVE ${DIRECTORY} ${DIRECTORY}/*.cu ${DIRECTORY}/*.cuh ${DIRECTORY}/*.h)
set(code "/* Made by cmake/embed.cmake. */\n#include \"cuda/sources.h\"\n\nextern const falt_cuda_source ${TABLE}[];\n")
set(table "")
foreach(name ${files})
  string(MAKE_C_IDENTIFIER ${name} identifier)
  file(READ ${DIRECTORY}/${name} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND code "static const char ${identifier}[] = {${bytes}0};\n")
  string(APPEND table "    {\"${name}\", ${identifier}},\n")
endforeach()
string(APPEND code "\nconst falt_cuda_source ${TABLE}[] = {\n${table}    {0, 0},\n};\n")
file(WRITE ${OUTPUT} "${code}")

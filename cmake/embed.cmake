# Writes sources as C arrays: cmake -DOUTPUT=sources.c -DDIRECTORY=src -DTABLE=falt_cuda_sources [-DALSO=glob] -P embed.cmake.
# Every kernel below the directory, and every header that kernels include, becomes an entry of the table under its file
# name, with ptx/ before it where that is its folder. File names must differ.
file(GLOB_RECURSE files ${DIRECTORY}/*.cu ${DIRECTORY}/*.cuh ${DIRECTORY}/*args.h ${DIRECTORY}/shape.h ${ALSO})
set(code "/* Made by cmake/embed.cmake. */\n#include \"cuda/sources.h\"\n\nextern const falt_cuda_source ${TABLE}[];\n")
set(table "")
foreach(file ${files})
  string(REGEX MATCH "(ptx/)?[^/]+$" name ${file})
  string(MAKE_C_IDENTIFIER ${name} identifier)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND code "static const char ${identifier}[] = {${bytes}0};\n")
  file(SHA256 ${file} digest)
  string(APPEND table "    {\"${name}\", ${identifier}, \"${digest}\"},\n")
endforeach()
string(APPEND code "\nconst falt_cuda_source ${TABLE}[] = {\n${table}    {0, 0, 0},\n};\n")
file(WRITE ${OUTPUT} "${code}")

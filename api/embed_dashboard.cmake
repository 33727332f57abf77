# cmake -DDIST=<dashboard/dist> -DFALLBACK=<no_dashboard.html> -DOUTPUT=<folder> -P embed_dashboard.cmake
#
# Writes OUTPUT/resources.S, which takes each file of DIST into the program as it is (.incbin), and
# OUTPUT/resources.cpp, the table of them. FILE.gz is the compressed form of FILE. Without DIST/index.html the fallback
# page stands alone. The outputs are touched only if they change; the hashes in them change with the files.

set(names)
if(EXISTS ${DIST}/index.html)
  file(GLOB_RECURSE names RELATIVE ${DIST} ${DIST}/*)
  list(FILTER names EXCLUDE REGEX "\\.(gz|br|map)$")
  list(SORT names)
endif()

set(type_html "text/html; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_png "image/png")
set(type_ico "image/x-icon")
set(type_json "application/json")
set(type_webmanifest "application/manifest+json")
set(type_txt "text/plain; charset=utf-8")
set(type_woff2 "font/woff2")

set(asm "# Made by embed_dashboard.cmake.\n    .section .rodata\n")
set(externs "")
set(rows "")
set(index 0)

macro(embed symbol file)
  file(SHA256 ${file} digest)
  string(APPEND asm "    .global weir_resource_${symbol}, weir_resource_${symbol}_end\n"
    "weir_resource_${symbol}:  # ${digest}\n    .incbin \"${file}\"\nweir_resource_${symbol}_end:\n")
  string(APPEND externs "extern const char weir_resource_${symbol}[], weir_resource_${symbol}_end[];\n")
endmacro()

macro(add path file)
  embed(${index} ${file})
  string(SUBSTRING ${digest} 0 16 hash)
  string(REGEX MATCH "[^.]*$" extension ${path})
  if(DEFINED type_${extension})
    set(type ${type_${extension}})
  else()
    set(type application/octet-stream)
  endif()
  set(bytes "{weir_resource_${index}, weir_resource_${index}_end}")
  set(gzip "{}")
  if(EXISTS ${file}.gz)
    embed(${index}_gz ${file}.gz)
    set(gzip "{weir_resource_${index}_gz, weir_resource_${index}_gz_end}")
  endif()
  string(APPEND rows "    {\"${path}\", \"${type}\", \"${hash}\", ${bytes}, ${gzip}},\n")
  math(EXPR index "${index} + 1")
endmacro()

foreach(name IN LISTS names)
  add(/${name} ${DIST}/${name})
endforeach()
if(NOT names)
  add(/index.html ${FALLBACK})
endif()

string(APPEND asm "    .section .note.GNU-stack,\"\",@progbits\n")
set(table "// Made by embed_dashboard.cmake.
#include \"api/resources.hpp\"

extern \"C\" {
${externs}}

namespace weir::api {

std::span<const Resource> resources() {
  static const Resource table[] = {
${rows}  };
  return table;
}

}  // namespace weir::api
")
file(CONFIGURE OUTPUT ${OUTPUT}/resources.S CONTENT "${asm}" @ONLY)
file(CONFIGURE OUTPUT ${OUTPUT}/resources.cpp CONTENT "${table}" @ONLY)

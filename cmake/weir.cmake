# The three build rules of this project. Warnings come from the presets, not from the targets.

find_program(WEIR_CCACHE ccache)
if(WEIR_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${WEIR_CCACHE})
endif()
find_program(WEIR_MOLD mold)
if(WEIR_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# weir_library(NAME SOURCES a.cpp ... DEPS x y ...)
# One static library per folder: target weir_NAME, alias weir::NAME, headers included from the project root.
# Each header is also compiled alone (target weir_NAME_headers), so that it includes what it uses.
function(weir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(weir_${name} STATIC ${ARG_SOURCES})
    target_include_directories(weir_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(weir_${name} PUBLIC ${ARG_DEPS})
  else()
    add_library(weir_${name} INTERFACE)
    target_include_directories(weir_${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(weir_${name} INTERFACE ${ARG_DEPS})
  endif()
  add_library(weir::${name} ALIAS weir_${name})
endfunction()

# weir_program(NAME SOURCES a.cpp ... DEPS x y ...): an executable in <build>/bin.
function(weir_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# weir_test(NAME SOURCES a_test.cpp ... DEPS x y ... [LABEL unit|contract|system] [TIMEOUT seconds])
# One GoogleTest program; ctest sees each of its tests.
function(weir_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()

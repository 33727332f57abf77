# The build rules of this project. Warnings come from the presets, not from the targets, but for one (TOGETHER).

find_program(WEIR_CCACHE ccache)
if(WEIR_CCACHE)
  # With paths relative to the build directory, so that a clone finds what another has compiled.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${WEIR_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()
find_program(WEIR_MOLD mold)
if(WEIR_MOLD)
  # Segments on pages of their own: mold 1.10 may otherwise begin the part that becomes read-only (RELRO) with a
  # thread-local byte in a page that is not mapped, and such a program does not start.
  add_link_options(-fuse-ld=mold LINKER:-z,separate-code)
endif()

# weir_library(NAME SOURCES a.cpp ... DEPS x y ... [TOGETHER])
# One static library per folder: target weir_NAME, alias weir::NAME, headers included from the project root. NAME is the
# folder's path, with _ between folders; for a part of a folder that others link alone, the folder's, _ and the part's.
# TOGETHER: release builds compile the sources eight at a time, so that LibTorch's headers, which take longer than the
# sources themselves, are read once for eight; no two of them may then have a name of their own in common.
function(weir_library name)
  cmake_parse_arguments(ARG "TOGETHER" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(weir_${name} STATIC ${ARG_SOURCES})
    target_include_directories(weir_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(weir_${name} PUBLIC ${ARG_DEPS})
    if(ARG_TOGETHER AND CMAKE_BUILD_TYPE STREQUAL Release)
      set_target_properties(weir_${name} PROPERTIES UNITY_BUILD ON)
      # To the compiler the eight are one file, which includes what has types in unnamed namespaces.
      target_compile_options(weir_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    endif()
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

# weir_test(NAME SOURCES a_test.cpp ... DEPS x y ... [LABEL unit|contract|system] [SHARDS n]
#           [ENVIRONMENT VARIABLE=value ...])
# One GoogleTest program, which is one test for ctest, or n, each of which runs every n-th of its tests: starting
# LibTorch takes longer than most tests do. Each writes what became of its tests to <build>/tests/reports, where
# scripts/test.py counts them. OpenBLAS gets one thread: its threads wait for each other by spinning, which takes
# minutes where tests share their cores with others.
function(weir_test name)
  cmake_parse_arguments(ARG "" "LABEL;SHARDS" "SOURCES;DEPS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  # What is tested is optimized as it will be used; optimizing the checks takes longer than they run.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  weir_add_test(${name} PROGRAM ${name} LABEL ${ARG_LABEL} SHARDS ${ARG_SHARDS} ENVIRONMENT ${ARG_ENVIRONMENT})
endfunction()

# weir_add_test(NAME PROGRAM target LABEL label [SHARDS n] [ENVIRONMENT VARIABLE=value ...]): has ctest run a program of
# weir_test, maybe once more and with other settings. Those in most shards take longest, and start first (COST).
function(weir_add_test name)
  cmake_parse_arguments(ARG "" "PROGRAM;LABEL;SHARDS" "ENVIRONMENT" ${ARGN})
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    if(ARG_SHARDS GREATER 1)
      set(test ${name}.${shard})
    endif()
    add_test(NAME ${test} COMMAND ${ARG_PROGRAM})
    set(environment OPENBLAS_NUM_THREADS=1 GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/tests/reports/${test}.xml
      GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${shard} ${ARG_ENVIRONMENT})
    set_tests_properties(${test} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 1800 COST ${ARG_SHARDS}
      ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# weir_gpu_program(NAME MAIN x.cpp [SOURCES y_test.cpp ...] DEPS x y ...): a program for a machine with a GPU, which is
# linked when it is asked for. MAIN, which is of no other program, is compiled in every build, so that it does not rot
# where there is no GPU; SOURCES are those of a test on the emulated device.
function(weir_gpu_program name)
  cmake_parse_arguments(ARG "" "MAIN" "SOURCES;DEPS" ${ARGN})
  add_library(${name}_main OBJECT ${ARG_MAIN})
  target_link_libraries(${name}_main PRIVATE ${ARG_DEPS})
  add_executable(${name} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${name}_main> ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# weir_fuzz(NAME SOURCES x_fuzz.cpp DEPS x y ...): a libFuzzer target with its inputs in tests/fuzz/corpus/NAME.
# In the fuzz preset it is built to search (target `fuzz_targets`); in every other it is a test that replays the corpus.
function(weir_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(WEIR_FUZZ)
    add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    add_dependencies(fuzz_targets ${name})
  else()
    add_executable(${name} ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cpp)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_test(NAME ${name}.corpus COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(${name}.corpus PROPERTIES LABELS contract TIMEOUT 300)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# weir_headers(FOLDERS a b ... DEPS x y ...): target `headers` compiles every header of these folders alone, which shows
# that each includes what it uses. Not part of the default build.
function(weir_headers)
  cmake_parse_arguments(ARG "" "" "FOLDERS;DEPS" ${ARGN})
  set(units "")
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
    foreach(header IN LISTS headers)
      set(unit ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
      file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n")
      list(APPEND units ${unit})
    endforeach()
  endforeach()
  add_library(headers OBJECT EXCLUDE_FROM_ALL ${units})
  target_include_directories(headers PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(headers PRIVATE ${ARG_DEPS})
endfunction()

# weir_embed_text(TARGET FILE HEADER NAMESPACE NAME): the text of FILE (a source, or what the build makes) as
# `inline constexpr std::string_view NAME` in namespace NAMESPACE, in a header that TARGET's sources include as HEADER
# (a path from the project root). Target `generated` makes these headers for who only reads sources (`make lint`), but
# for those whose text the build itself makes.
function(weir_embed_text target file header namespace name)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake)
  get_filename_component(input ${file} ABSOLUTE)
  set(output ${PROJECT_BINARY_DIR}/generated/${header})
  add_custom_command(OUTPUT ${output} DEPENDS ${input} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DOUTPUT=${output} -DNAMESPACE=${namespace} -DNAME=${name} -P ${script})
  target_sources(${target} PRIVATE ${output})
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${input} built)
  if(NOT built)
    if(NOT TARGET generated)
      add_custom_target(generated)
    endif()
    add_custom_target(${name}_generated DEPENDS ${output})
    add_dependencies(generated ${name}_generated)
  endif()
endfunction()

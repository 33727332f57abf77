# Third-party libraries for a machine that has none of their packages and no network: `make gpu-kit` gathers them where
# they are installed, and a build with -DWEIR_KIT=FOLDER, where they lie unpacked, takes from there what the machine
# itself does not have. Libraries of C come compiled, those of C++ as headers and sources: they are compiled with the
# compiler, the standard library and the LibTorch of this machine.

set(WEIR_KIT "" CACHE PATH "Folder with the libraries of `make gpu-kit`, for what the system lacks")
if(NOT WEIR_KIT)
  return()
endif()
if(NOT EXISTS ${WEIR_KIT}/boost/include)
  message(FATAL_ERROR "WEIR_KIT is ${WEIR_KIT}, but there is no unpacked kit in it (make gpu-kit, make gpu-test)")
endif()

# Behind the system's own folders. Each library has a folder, so that one which is found shadows no other.
file(GLOB folders LIST_DIRECTORIES true ${WEIR_KIT}/*)
list(APPEND CMAKE_SYSTEM_PREFIX_PATH ${folders})

# What is found by files of its own for CMake, or by none.
find_package(spdlog QUIET)
if(NOT spdlog_FOUND)
  add_library(weir_kit_spdlog INTERFACE)
  target_include_directories(weir_kit_spdlog SYSTEM INTERFACE ${WEIR_KIT}/spdlog/include)
  target_compile_definitions(weir_kit_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
  add_library(spdlog::spdlog ALIAS weir_kit_spdlog)
endif()

find_package(GTest QUIET)
if(NOT GTest_FOUND)
  set(source ${WEIR_KIT}/googletest/src)
  foreach(name gtest gmock)
    set(folder ${source}/google${name})
    string(REPLACE googlegtest googletest folder ${folder})
    string(REPLACE googlegmock googlemock folder ${folder})
    add_library(weir_kit_${name} STATIC EXCLUDE_FROM_ALL ${folder}/src/${name}-all.cc)
    add_library(weir_kit_${name}_main STATIC EXCLUDE_FROM_ALL ${folder}/src/${name}_main.cc)
    target_include_directories(weir_kit_${name} SYSTEM PUBLIC ${folder}/include PRIVATE ${folder})
    target_compile_options(weir_kit_${name} PRIVATE -w)
    target_link_libraries(weir_kit_${name}_main PUBLIC weir_kit_${name})
    add_library(GTest::${name} ALIAS weir_kit_${name})
    add_library(GTest::${name}_main ALIAS weir_kit_${name}_main)
  endforeach()
  target_link_libraries(weir_kit_gtest PUBLIC Threads::Threads)
  target_link_libraries(weir_kit_gmock PUBLIC weir_kit_gtest)
endif()

# Third-party libraries, all Debian packages (`make deps` installs them). LibTorch is linked by the targets that need
# tensors and never by `weir` itself: it costs every process 0.4 s and 165 MB at start.

find_package(Threads REQUIRED)
include(kit)  # WEIR_KIT, for machines without these packages
find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
if(NOT TARGET spdlog::spdlog)
  find_package(spdlog REQUIRED)
endif()
if(NOT TARGET GTest::gtest)
  find_package(GTest REQUIRED)
endif()
find_path(WEIR_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(WEIR_XXHASH_LIBRARY xxhash REQUIRED)
add_library(weir_xxhash UNKNOWN IMPORTED)
set_target_properties(weir_xxhash PROPERTIES
  IMPORTED_LOCATION ${WEIR_XXHASH_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${WEIR_XXHASH_INCLUDE})
add_library(weir::xxhash ALIAS weir_xxhash)

# Boost.Asio, with what is no template compiled once; Beast is header-only. The executor type everywhere is
# any_io_executor.
add_library(weir_asio STATIC ${PROJECT_SOURCE_DIR}/cmake/asio.cpp)
target_compile_definitions(weir_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION)
target_link_libraries(weir_asio PUBLIC Boost::headers Threads::Threads)
# Wherever it optimizes, g++ 12 inlines a coroutine's operator new but not its operator delete (both Asio's) and then
# calls them mismatched.
target_compile_options(weir_asio PUBLIC $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
add_library(weir::asio ALIAS weir_asio)

include(torch)  # weir::torch

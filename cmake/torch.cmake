# LibTorch, as weir::torch. Debian's, or another through CMAKE_PREFIX_PATH: that of a Python package, say, of which
#   python3 -c "import torch; print(torch.utils.cmake_prefix_path)"
# prints the folder.

add_library(weir_torch INTERFACE)
add_library(weir::torch ALIAS weir_torch)
target_compile_options(weir_torch INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-include \"${PROJECT_SOURCE_DIR}/cmake/clang_libtorch.h\">")

# One for CUDA is linked by what it consists of. Its own files for CMake look for all of the CUDA toolkit and headers
# of cuDNN, change the flags of nvcc, and have programs look into the toolkit's folder stubs/, whose libcuda.so has no
# more than the names of the driver's. Nothing here uses those of its headers that include CUDA's.
set(WEIR_TORCH_HAS_CUDA OFF)
string(REPLACE ":" ";" prefixes "$ENV{CMAKE_PREFIX_PATH}")
foreach(prefix IN LISTS Torch_DIR CMAKE_PREFIX_PATH prefixes)
  foreach(up "" /../.. /../../..)
    if(EXISTS ${prefix}${up}/lib/libtorch_cuda.so)
      set(WEIR_TORCH_HAS_CUDA ON)
      cmake_path(SET root NORMALIZE ${prefix}${up})
      break()
    endif()
  endforeach()
  if(WEIR_TORCH_HAS_CUDA)
    break()
  endif()
endforeach()

if(NOT WEIR_TORCH_HAS_CUDA)
  find_package(Torch REQUIRED)
  target_link_libraries(weir_torch INTERFACE ${TORCH_LIBRARIES})
else()
  foreach(name torch torch_cpu torch_cuda c10 c10_cuda)
    add_library(weir_torch_${name} SHARED IMPORTED)
    set_target_properties(weir_torch_${name} PROPERTIES IMPORTED_LOCATION ${root}/lib/lib${name}.so)
    target_link_libraries(weir_torch INTERFACE weir_torch_${name})
  endforeach()
  # Its folder of headers also has those of libraries that it was built with, such as fmt, which would come before ours.
  set(headers ${PROJECT_BINARY_DIR}/libtorch)
  file(MAKE_DIRECTORY ${headers})
  file(GLOB entries LIST_DIRECTORIES true RELATIVE ${root}/include ${root}/include/*)
  list(FILTER entries EXCLUDE REGEX
    "^(boost|CLI|fmt|gmock|gtest|nlohmann|openssl|spdlog|sqlite3.*|xxh.*|zlib.*|zconf.*)$")
  foreach(entry IN LISTS entries)
    file(CREATE_LINK ${root}/include/${entry} ${headers}/${entry} SYMBOLIC)
  endforeach()
  target_include_directories(weir_torch SYSTEM INTERFACE ${headers} ${headers}/torch/csrc/api/include)
  # Its device is there because its library is loaded, though nothing names it. What these libraries need themselves,
  # the loader finds by their own paths (in the folders nvidia/ beside that of a Python package).
  target_link_options(weir_torch INTERFACE LINKER:--no-as-needed LINKER:--allow-shlib-undefined)
  # Some compilers are set up to link the C++ library statically. A program with a copy of its own crashes in the first
  # std::call_once of LibTorch: part of that is inlined and part in the library, and they share thread-local variables.
  target_link_libraries(weir_torch INTERFACE -l:libstdc++.so.6)
  message(STATUS "LibTorch for CUDA in ${root}")
endif()

# Without the names that later versions do not have.
if(WEIR_TORCH_HAS_CUDA OR Torch_VERSION VERSION_GREATER_EQUAL 2)
  target_compile_definitions(weir_torch INTERFACE C10_NODEPRECATED)
endif()

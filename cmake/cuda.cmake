# CUDA, for the folder cuda/ alone. Elsewhere nothing depends on whether it is there.
#
# WEIR_CUDA  AUTO: cuda/ is built if there is an nvcc; ON: an error if there is none; OFF.
# Sets WEIR_HAS_CUDA.

set(WEIR_CUDA AUTO CACHE STRING "Build cuda/: AUTO (if there is an nvcc), ON or OFF")
set_property(CACHE WEIR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(WEIR_HAS_CUDA OFF)

if(NOT WEIR_CUDA STREQUAL "OFF" AND NOT WEIR_FUZZ)
  find_program(WEIR_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(WEIR_NVCC)
    set(CMAKE_CUDA_COMPILER ${WEIR_NVCC})
    # Device code for what there is to run on, and PTX of the newest for what comes later.
    execute_process(COMMAND ${WEIR_NVCC} --list-gpu-arch OUTPUT_VARIABLE known)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real)
    if(known MATCHES "compute_100")
      list(APPEND CMAKE_CUDA_ARCHITECTURES 100)
    else()
      list(APPEND CMAKE_CUDA_ARCHITECTURES 90-virtual)
    endif()
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    enable_language(CUDA)
    find_package(CUDAToolkit 12.4 REQUIRED)
    # What is linked is what weir::cuda names (the static runtime), and nothing searches the toolkit's folders: the
    # driver's library there only has the names of the real one.
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)
    set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
    set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES "")
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    # Else /usr/include, where Boost is, would come before the C++ library's own headers.
    list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    set(WEIR_HAS_CUDA ON)
  elseif(WEIR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WEIR_CUDA is ON, but there is no nvcc: install the CUDA toolkit (12.4 or newer), set "
                        "CUDA_HOME to where it is, or configure with -DWEIR_CUDA=AUTO")
  endif()
endif()
message(STATUS "cuda/ is built: ${WEIR_HAS_CUDA}")

# CUDA, for the folder cuda/ alone. Elsewhere nothing depends on whether it is there.
#
# WEIR_CUDA  AUTO: cuda/ is built if there is an nvcc of CUDA 12.4 or newer; ON: an error if there is none; OFF.
# Sets WEIR_HAS_CUDA.

set(WEIR_CUDA AUTO CACHE STRING "Build cuda/: AUTO (if there is an nvcc), ON or OFF")
set_property(CACHE WEIR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(WEIR_HAS_CUDA OFF)
set(oldest 12.4)

if(WEIR_FUZZ OR NOT WEIR_CUDA)
  set(reason "it is not asked for")
else()
  find_program(WEIR_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(WEIR_NVCC)
    execute_process(COMMAND ${WEIR_NVCC} --version OUTPUT_VARIABLE said)
    string(REGEX MATCH "release ([0-9.]+)" said "${said}")
    if("${CMAKE_MATCH_1}" VERSION_LESS ${oldest})
      set(reason "${WEIR_NVCC} is of CUDA ${CMAKE_MATCH_1}, and ${oldest} or newer is needed")
    else()
      set(WEIR_HAS_CUDA ON)
    endif()
  else()
    set(reason "there is no nvcc: install the CUDA toolkit (${oldest} or newer), or set CUDA_HOME to where it is")
  endif()
endif()

if(WEIR_HAS_CUDA)
  message(STATUS "cuda/ is built with ${WEIR_NVCC}")
elseif(WEIR_CUDA STREQUAL "ON")
  message(FATAL_ERROR "WEIR_CUDA is ON, but ${reason}")
else()
  message(STATUS "cuda/ is not built: ${reason}")
  set(unused "${CMAKE_CUDA_FLAGS}")  # which the presets set for who needs it
  return()
endif()

# Device code for what there is to run on, and PTX of the newest for what comes later; unless somebody asks for less.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${WEIR_NVCC} --list-gpu-arch OUTPUT_VARIABLE known)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real)
  if(known MATCHES "compute_100")
    list(APPEND CMAKE_CUDA_ARCHITECTURES 100)
  else()
    list(APPEND CMAKE_CUDA_ARCHITECTURES 90-virtual)
  endif()
endif()

set(CMAKE_CUDA_COMPILER ${WEIR_NVCC})
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
enable_language(CUDA)
find_package(CUDAToolkit ${oldest} REQUIRED)

# What is linked is what weir::cuda names (the static runtime), and nothing searches the toolkit's folders: the driver's
# library there only has the names of the real one.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES "")
# Else /usr/include, where Boost is, would come before the C++ library's own headers.
list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})

set(CMAKE_CUDA_STANDARD 20)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()

# CUDA, for the folder cuda/ alone. Elsewhere nothing depends on whether it is there.
#
# WEIR_CUDA  AUTO: cuda/ is built if there is an nvcc of CUDA 12.4 or newer that works with the host's compiler;
#            ON: an error if there is none; OFF.
# Sets WEIR_HAS_CUDA.

set(WEIR_CUDA AUTO CACHE STRING "Build cuda/: AUTO (if there is an nvcc that works), ON or OFF")
set_property(CACHE WEIR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(WEIR_HAS_CUDA OFF)
set(oldest 12.4)
set(complain STATUS)

# Sets `reason` if nvcc does not make a program. Each CUDA takes compilers of some versions only, and a toolkit may lack
# parts; enable_language() would end the configuration for that. What has worked is not tried again.
function(weir_try_nvcc)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CUDA_FLAGS}")
  set(try ${WEIR_NVCC} -std=c++20 ${flags})
  set(host_compiler "$ENV{CUDAHOSTCXX}")
  if(CMAKE_CUDA_HOST_COMPILER)
    set(host_compiler ${CMAKE_CUDA_HOST_COMPILER})
  endif()
  if(host_compiler)
    list(APPEND try -ccbin ${host_compiler})
  endif()
  if(WEIR_NVCC_WORKED STREQUAL "${try}")
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/CMakeFiles/try_nvcc)
  file(WRITE ${folder}/try.cu
       "#include <concepts>\n__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n")
  execute_process(COMMAND ${try} try.cu -o try WORKING_DIRECTORY ${folder}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    set(reason "${WEIR_NVCC} makes no program with the host's compiler (CUDAHOSTCXX names another one):\n${said}")
    set(reason "${reason}" PARENT_SCOPE)
  else()
    set(WEIR_NVCC_WORKED "${try}" CACHE INTERNAL "the command with which nvcc has made a program")
  endif()
endfunction()

if(WEIR_FUZZ OR NOT WEIR_CUDA)
  set(reason "it is not asked for")
else()
  find_program(WEIR_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(WEIR_NVCC)
    execute_process(COMMAND ${WEIR_NVCC} --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
    set(reason "")
    if(NOT said MATCHES "release ([0-9.]+)")
      set(reason "${WEIR_NVCC} does not say of which CUDA it is:\n${said}")
      set(complain WARNING)
    elseif(CMAKE_MATCH_1 VERSION_LESS oldest)
      set(reason "${WEIR_NVCC} is of CUDA ${CMAKE_MATCH_1}, and ${oldest} or newer is needed")
    else()
      weir_try_nvcc()
      set(complain WARNING)
    endif()
    if(reason STREQUAL "")
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
  message(${complain} "cuda/ is not built: ${reason}")
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

# Finds LibTorch once, quietly (its own package warns about static libraries that nobody needs). Shared by the build and by the installed package. The
# first of these counts:
#   TW_TORCH_DIR     as a variable or in the environment; it must be there
#   target torch     of the user's own find_package(Torch); a TW_TORCH_DIR that names another folder is an error
#   Torch_DIR, CMAKE_PREFIX_PATH
#   the folders given, such as build/deps/torch
# TW_DEVICE=cuda takes a CUDA build with all that it has, for which neither CUDA's toolkit nor its compiler is needed; empty: for the CPU at least.
# Sets TORCH_INSTALL_PREFIX. Leaves target torch undefined where there is none.
function(tw_find_torch)
  set(config share/cmake/Torch)
  set(named "${TW_TORCH_DIR}")
  if(NOT named)
    set(named "$ENV{TW_TORCH_DIR}")
  endif()
  if(named AND NOT EXISTS "${named}/${config}/TorchConfig.cmake")
    message(FATAL_ERROR "TW_TORCH_DIR is ${named}, but there is no ${config}/TorchConfig.cmake in it")
  endif()
  if(TARGET torch)
    if(named)
      tw_refuse_another_torch("${named}")
    endif()
  else()
    string(REPLACE ":" ";" prefixes "$ENV{CMAKE_PREFIX_PATH}")
    set(hints ${CMAKE_PREFIX_PATH} ${prefixes} ${ARGN})
    if(Torch_DIR)
      list(PREPEND hints "${Torch_DIR}/../../..")
    endif()
    if(named)
      set(Torch_DIR "${named}/${config}" CACHE PATH "LibTorch's package" FORCE)  # or the one that was found before would stay
      set(hints "${named}")
    endif()
    set(folder "")
    foreach(candidate IN LISTS hints)
      if(NOT folder AND EXISTS "${candidate}/${config}/TorchConfig.cmake")
        cmake_path(ABSOLUTE_PATH candidate NORMALIZE OUTPUT_VARIABLE folder)
      endif()
    endforeach()
    if(TW_DEVICE)
      tw_import_device_build("${folder}" ${hints})
    elseif(EXISTS "${folder}/lib/libtorch_cuda.so" OR EXISTS "${folder}/only_the_cpu_half")
      find_package(CUDAToolkit QUIET)
      if(EXISTS "${folder}/only_the_cpu_half" OR NOT CUDAToolkit_FOUND)
        message(STATUS "LibTorch is a CUDA build, without all that it needs of CUDA: its CPU half is used")
        tw_import_torch("${folder}" "${folder}/lib/libtorch_cpu.so")  # it loads CUDA's run time and CUPTI, no more
        set_target_properties(torch PROPERTIES TW_CPU_HALF ON)
      endif()
    endif()
    if(NOT TARGET torch)
      set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
      find_package(Torch QUIET CONFIG HINTS "${folder}" PATH_SUFFIXES ${config})
      set(CMAKE_MESSAGE_LOG_LEVEL STATUS)
    endif()
    if(NOT TARGET torch)
      return()
    endif()
  endif()
  tw_put_standard_library_before_torch()
  tw_torch_folder(folder)
  message(STATUS "LibTorch: ${folder}")
  set(TORCH_INSTALL_PREFIX "${folder}" PARENT_SCOPE)
endfunction()

# tw_refuse_another_torch(named): target torch cannot be replaced by the LibTorch in folder `named`, so it must be that one.
function(tw_refuse_another_torch named)
  tw_torch_folder(folder)
  file(REAL_PATH "${folder}" there)
  file(REAL_PATH "${named}" wanted)
  if(NOT there STREQUAL wanted)
    message(FATAL_ERROR "TW_TORCH_DIR is ${named}, but this project already has a target torch, of ${folder}. "
                        "Find Torchweave before Torch, or let both name one folder.")
  endif()
endfunction()

# tw_torch_folder(folder): the folder of target torch that holds include/ and lib/.
function(tw_torch_folder result)
  get_target_property(includes torch INTERFACE_INCLUDE_DIRECTORIES)
  list(FILTER includes EXCLUDE REGEX "csrc/api/include")
  list(GET includes 0 include)
  cmake_path(GET include PARENT_PATH folder)
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# tw_torch_version(version): LibTorch's version, such as 2.13, by its header.
function(tw_torch_version result)
  tw_torch_folder(folder)
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS "${folder}/include/${header}")
      file(STRINGS "${folder}/include/${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
      string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
      list(JOIN numbers . version)
      set(${result} "${version}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "of unknown version" PARENT_SCOPE)
endfunction()

# tw_torch_abi(abi): 0 if LibTorch's functions take the strings of before C++11, else 1.
function(tw_torch_abi result)
  get_target_property(options torch INTERFACE_COMPILE_OPTIONS)
  if("${options};${TORCH_CXX_FLAGS}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    set(${result} 0 PARENT_SCOPE)
  else()
    set(${result} 1 PARENT_SCOPE)
  endif()
endfunction()

# tw_torch_kind(kind): CPU, CUDA, HIP or XPU, by the libraries that programs load with target torch.
function(tw_torch_kind result)
  tw_torch_folder(folder)
  get_target_property(cpu_half torch TW_CPU_HALF)
  set(${result} CPU PARENT_SCOPE)
  foreach(kind CUDA HIP XPU)
    string(TOLOWER ${kind} name)
    if(NOT cpu_half AND EXISTS "${folder}/lib/libtorch_${name}.so")
      set(${result} ${kind} PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# LibTorch's libraries export parts of a C++ library of their own, std::filesystem for one. Whatever the loader finds first is what a program calls, and
# half of the one with half of the other is a crash: of the CUDA build 2.11, in std::filesystem::remove_all(). So all of it is the system's.
function(tw_put_standard_library_before_torch)
  set(first "-Wl,--push-state,--no-as-needed,-lstdc++,--pop-state")
  get_target_property(libraries torch INTERFACE_LINK_LIBRARIES)
  string(FIND "${libraries}" "${first}" place)
  if(NOT place EQUAL 0)
    set_target_properties(torch PROPERTIES INTERFACE_LINK_LIBRARIES "${first};${libraries}")
  endif()
endfunction()

# What we use of LibTorch is the same for the CPU and for all devices: no header and no library of CUDA's is compiled or linked against. libtorch.so is
# nothing but the list of libraries to load; that for CUDA enters itself when it is loaded. Where NVIDIA's libraries lie is looked up by the loader
# alone, so that the linker need not find them.
function(tw_import_device_build folder)
  if(NOT TW_DEVICE STREQUAL "cuda")
    message(FATAL_ERROR "TW_DEVICE is cuda or empty, not ${TW_DEVICE}")
  endif()
  if(NOT EXISTS "${folder}/lib/libtorch_cuda.so" OR EXISTS "${folder}/only_the_cpu_half")
    message(FATAL_ERROR "TW_DEVICE is cuda, but there is no whole CUDA build of LibTorch (looked at: ${ARGN}). Set TW_TORCH_DIR to one.")
  endif()
  tw_import_torch("${folder}" "-Wl,--push-state,--no-as-needed,${folder}/lib/libtorch.so,--pop-state" "${folder}/lib/libtorch_cpu.so")
  target_link_options(torch INTERFACE -Wl,--allow-shlib-undefined)
endfunction()

# By its files: the package of a CUDA build wants CUDA's compiler and headers.
function(tw_import_torch folder)
  add_library(torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(torch INTERFACE "${folder}/include" "${folder}/include/torch/csrc/api/include")
  target_link_libraries(torch INTERFACE ${ARGN} "${folder}/lib/libc10.so")
endfunction()

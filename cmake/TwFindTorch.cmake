# Finds LibTorch once, quietly (its own package warns about static libraries that nobody needs). What TW_TORCH_DIR names, as a variable or in the
# environment, must be there; else it is looked for in the folders given. Shared by the build and by the installed package.
#   TW_DEVICE=cuda   takes a CUDA build with all that it has, for which neither CUDA's toolkit nor its compiler is needed; empty: for the CPU at least
function(tw_find_torch)
  if(TARGET torch)
    return()
  endif()
  set(config share/cmake/Torch)
  set(named "${TW_TORCH_DIR}")
  if(NOT named)
    set(named "$ENV{TW_TORCH_DIR}")
  endif()
  if(named)
    if(NOT EXISTS "${named}/${config}/TorchConfig.cmake")
      message(FATAL_ERROR "TW_TORCH_DIR is ${named}, but there is no ${config}/TorchConfig.cmake in it")
    endif()
    set(Torch_DIR "${named}/${config}" CACHE PATH "LibTorch's package" FORCE)  # or the one that was found before would stay
  endif()
  set(folder "")
  foreach(candidate "${named}" ${ARGN})
    if(NOT folder AND EXISTS "${candidate}/${config}/TorchConfig.cmake")
      set(folder "${candidate}")
    endif()
  endforeach()
  set(TORCH_INSTALL_PREFIX "${folder}")
  if(TW_DEVICE)
    tw_import_device_build("${folder}" ${named} ${ARGN})
  elseif(EXISTS "${folder}/lib/libtorch_cuda.so")
    find_package(CUDAToolkit QUIET)
    if(EXISTS "${folder}/only_the_cpu_half" OR NOT CUDAToolkit_FOUND)
      message(STATUS "LibTorch is a CUDA build, without all that it needs of CUDA: its CPU half is used")
      tw_import_torch("${folder}" "${folder}/lib/libtorch_cpu.so")  # it loads CUDA's run time and CUPTI, no more
    endif()
  endif()
  if(NOT TARGET torch)
    set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
    find_package(Torch QUIET CONFIG HINTS "${folder}" PATH_SUFFIXES ${config})
    set(CMAKE_MESSAGE_LOG_LEVEL STATUS)
  endif()
  if(NOT TARGET torch)
    message(FATAL_ERROR "LibTorch was not found. Run scripts/setup.sh, or set TW_TORCH_DIR to the folder that holds its include/ and lib/.")
  endif()
  tw_put_standard_library_before_torch()
  message(STATUS "LibTorch: ${TORCH_INSTALL_PREFIX}")
  set(TORCH_INSTALL_PREFIX "${TORCH_INSTALL_PREFIX}" PARENT_SCOPE)
endfunction()

# LibTorch's libraries export parts of a C++ library of their own, std::filesystem for one. Whatever the loader finds first is what a program calls, and
# half of the one with half of the other is a crash: of the CUDA build 2.11, in std::filesystem::remove_all(). So all of it is the system's.
function(tw_put_standard_library_before_torch)
  get_target_property(libraries torch INTERFACE_LINK_LIBRARIES)
  set_target_properties(torch PROPERTIES INTERFACE_LINK_LIBRARIES "-Wl,--push-state,--no-as-needed,-lstdc++,--pop-state;${libraries}")
endfunction()

# What we use of LibTorch is the same for the CPU and for all devices: no header and no library of CUDA's is compiled or linked against. libtorch.so is
# nothing but the list of libraries to load; that for CUDA enters itself when it is loaded. Where NVIDIA's libraries lie is looked up by the loader
# alone, so that the linker need not find them.
function(tw_import_device_build folder)
  if(NOT TW_DEVICE STREQUAL "cuda")
    message(FATAL_ERROR "TW_DEVICE is cuda or empty, not ${TW_DEVICE}")
  endif()
  if(NOT EXISTS "${folder}/lib/libtorch_cuda.so" OR EXISTS "${folder}/only_the_cpu_half")
    message(FATAL_ERROR "TW_DEVICE is cuda, but there is no whole CUDA build of LibTorch (looked at: ${ARGN}). Run scripts/setup.sh build cuda, or set TW_TORCH_DIR to one.")
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

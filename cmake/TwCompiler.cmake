# How our own code is compiled: standard, warnings, sanitizers, ccache. Nothing here reaches a consumer.
option(TW_COVERAGE "Record line coverage" OFF)
set(TW_SANITIZE "" CACHE STRING "Sanitizers for our own code, as -fsanitize takes them")

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  find_program(TW_CCACHE ccache)
  if(TW_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # The precompiled header is a build product with a time stamp; without this, ccache gives up on every unit that uses it.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" "${TW_CCACHE}")
  endif()
endif()

if(NOT PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  message(NOTICE "Torchweave is compiled without optimisation, because CMAKE_BUILD_TYPE is empty: set it to Release.")
endif()
if(BUILD_SHARED_LIBS)
  message(NOTICE "Torchweave's libraries are static, whatever BUILD_SHARED_LIBS says: docs/install.md, section \"Shared libraries of your own\".")
endif()

# tw_compile_options(target): the flags of our own code, never of a consumer's.
function(tw_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF COMPILE_WARNING_AS_ERROR ${TW_WARNINGS_AS_ERRORS})
  target_compile_options(${target} PRIVATE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")  # no text of ours names a folder of the build
  target_compile_options(${target} PRIVATE -fPIC)  # for libraries and programs alike, or they could not share the precompiled header
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                         -Wcast-align)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=1048576)  # below 1 GiB g++ need not look for garbage: an eighth of its time
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)  # g++ 12 on std::string: GCC bugs 105329, 105651
    # In a unity build, the unit is not the file that is compiled, so that g++ takes its unnamed namespaces for a header's.
    target_compile_options(${target} PRIVATE $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-subobject-linkage>)
  endif()
  if(TW_SANITIZE)
    # Instrumented code makes the optimiser's warnings wrong more often than right (GCC's manual says so of -fsanitize).
    set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
    target_compile_options(${target} PRIVATE -fsanitize=${TW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    # LibTorch is built without type information for some of its bases; vptr checks need it in every library.
    if(TW_SANITIZE MATCHES undefined)
      target_compile_options(${target} PRIVATE -fno-sanitize=vptr)
    endif()
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${TW_SANITIZE}>)
  endif()
  if(TW_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage)
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:--coverage>)
  endif()
endfunction()

# tw_precompiled(target FORM): the target's units begin with LibTorch's headers, compiled once for all targets of that form.
#   library    those headers that most modules include; -O1, as are modules and tool, whose time goes into what they call
#   benchmark  all of LibTorch; optimised
#   program    all of LibTorch; not optimised, as are the targets: tests, examples and what tests run
function(tw_precompiled target form)
  tw_optimise_as(${target} ${form})
  set(owner tw_precompiled_${form})
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/precompiled/unit.cpp")
    target_link_libraries(${owner} PRIVATE torch)
    tw_compile_options(${owner})
    target_precompile_headers(${owner} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/precompiled/${form}.hpp")
    tw_optimise_as(${owner} ${form})
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      target_compile_options(${owner} PUBLIC -fpch-instantiate-templates)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# tw_optimise_as(target FORM): a precompiled header serves only units that are compiled with the same optimisation.
function(tw_optimise_as target form)
  if("${form}" STREQUAL "program")
    tw_unoptimised(${target})
  elseif("${form}" STREQUAL "library")
    tw_little_optimised(${target})
  endif()
endfunction()

# tw_unoptimised(target): compiled in half the time; for what is run once.
function(tw_unoptimised target)
  if(NOT TW_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# tw_little_optimised(target): for what computes for a while, and is run once.
function(tw_little_optimised target)
  if(NOT TW_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  endif()
endfunction()

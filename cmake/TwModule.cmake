# tw_module(NAME FLOOR n [PUBLIC targets...] [PRIVATE targets...] [NOT_FORWARDED headers...])
#
# A module is its folder: the public headers are include/tw/NAME/*.hpp, the sources are src/*.cpp. It becomes target
# tw_NAME (tw::NAME) with an include root of its own, so that only what is linked can be included, and a generated header
# <tw/NAME.hpp> that includes its public headers and those of the modules that it links publicly. Headers NOT_FORWARDED are
# left out there: those that take long to compile and that few users need, who include them by name.
function(tw_module name)
  cmake_parse_arguments(arg "" "FLOOR" "PUBLIC;PRIVATE;NOT_FORWARDED" ${ARGN})
  file(GLOB headers CONFIGURE_DEPENDS "include/tw/${name}/*.hpp")
  list(FILTER headers EXCLUDE REGEX "/interop.hpp$")  # these need <mpi.h> and have a target of their own
  file(GLOB sources CONFIGURE_DEPENDS "src/*.cpp")

  set(own_includes "")
  set(forwards "")
  foreach(header IN LISTS headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/include")
    cmake_path(GET header FILENAME file)
    if(NOT file IN_LIST arg_NOT_FORWARDED)
      string(APPEND own_includes "#include <${header}>\n")
    endif()
  endforeach()
  foreach(target IN LISTS arg_PUBLIC arg_PRIVATE)
    if(target MATCHES "^tw::(.*)$")
      get_target_property(floor ${target} TW_FLOOR)
      if(NOT floor LESS arg_FLOOR)
        message(FATAL_ERROR "module ${name} (floor ${arg_FLOOR}) must not use ${target} (floor ${floor})")
      endif()
      if(target IN_LIST arg_PUBLIC)
        string(APPEND forwards "#include <tw/${CMAKE_MATCH_1}.hpp>\n")
      endif()
    endif()
  endforeach()
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/include")
  file(CONFIGURE OUTPUT "${generated}/tw/${name}.hpp"
       CONTENT "// Generated: the public headers of ${name} and of what it builds on.\n#pragma once\n${forwards}${own_includes}")

  add_library(tw_${name} STATIC ${sources})
  add_library(tw::${name} ALIAS tw_${name})
  target_sources(tw_${name} PUBLIC FILE_SET HEADERS
    BASE_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/include" "${generated}"
    FILES ${headers} "${generated}/tw/${name}.hpp")
  target_link_libraries(tw_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  set_target_properties(tw_${name} PROPERTIES TW_FLOOR ${arg_FLOOR} EXPORT_NAME ${name})
  tw_compile_options(tw_${name})
  tw_tidy(tw_${name})
  set_property(GLOBAL APPEND PROPERTY TW_MODULES ${name})
  if(TW_BUILD_TESTS AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/tests/CMakeLists.txt")
    set_property(GLOBAL APPEND PROPERTY TW_TEST_FOLDERS "${CMAKE_CURRENT_SOURCE_DIR}/tests")
  endif()
endfunction()

# tw_umbrella(): <tw/torchweave.hpp> and the target tw::torchweave, for users; library code never includes it.
function(tw_umbrella)
  get_property(modules GLOBAL PROPERTY TW_MODULES)
  set(forwards "")
  foreach(name IN LISTS modules)
    string(APPEND forwards "#include <tw/${name}.hpp>\n")
  endforeach()
  set(generated "${PROJECT_BINARY_DIR}/umbrella/include")
  file(CONFIGURE OUTPUT "${generated}/tw/torchweave.hpp"
       CONTENT "// Generated: every module.\n#pragma once\n${forwards}")
  add_library(tw_torchweave INTERFACE)
  add_library(tw::torchweave ALIAS tw_torchweave)
  target_sources(tw_torchweave INTERFACE FILE_SET HEADERS BASE_DIRS "${generated}" FILES "${generated}/tw/torchweave.hpp")
  list(TRANSFORM modules PREPEND tw::)
  target_link_libraries(tw_torchweave INTERFACE ${modules})
  set_target_properties(tw_torchweave PROPERTIES EXPORT_NAME torchweave)
  set_property(GLOBAL APPEND PROPERTY TW_MODULES torchweave)
endfunction()

# Install rules: find_package(Torchweave) gives tw::<module>, tw::torchweave and tw::mpi_interop.
include(CMakePackageConfigHelpers)
get_property(modules GLOBAL PROPERTY TW_MODULES)
list(TRANSFORM modules PREPEND tw_ OUTPUT_VARIABLE targets)
install(TARGETS ${targets} tw_mpi_interop EXPORT TorchweaveTargets FILE_SET HEADERS)
install(EXPORT TorchweaveTargets NAMESPACE tw:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Torchweave)
configure_package_config_file(cmake/TorchweaveConfig.cmake.in "${PROJECT_BINARY_DIR}/TorchweaveConfig.cmake"
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Torchweave)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TorchweaveConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TorchweaveConfig.cmake" "${PROJECT_BINARY_DIR}/TorchweaveConfigVersion.cmake"
              cmake/TwFindTorch.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Torchweave)
if(TW_BUILD_APPS)
  # LibTorch lies where no loader looks, and the link path leaves out what lies inside the source tree, such as build/deps.
  set_target_properties(torchweave PROPERTIES INSTALL_RPATH "${TORCH_INSTALL_PREFIX}/lib" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS torchweave COMPONENT tool)
endif()

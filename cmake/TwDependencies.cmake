# Third-party packages. LibTorch is the only one that a consumer must find again; the others stay inside our sources.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # add_subdirectory's callers link them through ours
include(TwFindTorch)
tw_find_torch("${PROJECT_SOURCE_DIR}/build/deps/${TW_DEVICE}/torch")
include(TwMpi)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 3.3 REQUIRED NO_MODULE)
find_path(TW_RANDOM123_INCLUDE Random123/philox.h REQUIRED)
find_path(TW_XXHASH_INCLUDE xxhash.h REQUIRED)
# Debian's CMake package of libzip insists on its command-line tools.
find_path(TW_LIBZIP_INCLUDE zip.h REQUIRED)
find_library(TW_LIBZIP_LIBRARY zip REQUIRED)

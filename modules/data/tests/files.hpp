// SPDX-License-Identifier: Apache-2.0
// Files for tests of readers, and checks of their errors.
#pragma once
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <tw/base/error.hpp>

namespace tw::testing {

/// A path in this test program's own temporary folder.
inline std::filesystem::path temporary(const std::string& name) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / (std::string("tw_") + program_invocation_short_name);
  std::filesystem::create_directories(folder);
  return folder / name;
}

inline std::filesystem::path write_file(const std::string& name, const std::string& bytes) {
  const auto path = temporary(name);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

/// An empty folder.
inline std::filesystem::path fresh_folder(const std::string& name) {
  std::filesystem::remove_all(temporary(name));
  std::filesystem::create_directories(temporary(name));
  return temporary(name);
}

/// `call` must throw a FileError with a file called `file`, the offset (-1: any) and the problem.
template <class Call>
void expect_file_error(const Call& call, const std::string& file, int64_t offset, const std::string& problem) {
  try {
    call();
    ADD_FAILURE() << "no exception where " << problem << " was expected";
  } catch (const FileError& error) {
    EXPECT_EQ(error.path().filename(), file);
    EXPECT_EQ(offset < 0 ? offset : error.offset(), offset) << error.what();
    EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
  }
}

}  // namespace tw::testing

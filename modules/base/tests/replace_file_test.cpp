// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <tw/base/error.hpp>
#include <tw/base/replace_file.hpp>

namespace replace_file_test {

namespace fs = std::filesystem;

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / "tw_replace_file" / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t files_in(const fs::path& folder) { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); }

TEST(ReplaceFile, HasTheWholeContentOrTheOldOne) {
  const fs::path folder = fresh_folder("whole");
  tw::replace_file(folder / "a", "one");
  tw::replace_file(folder / "a", "two");
  EXPECT_EQ(content_of(folder / "a"), "two");
  const auto half = [](const fs::path& partial) {
    std::ofstream(partial) << "thr";
    throw std::runtime_error("the writer failed");
  };
  EXPECT_THROW(tw::replace_file(folder / "a", half), std::runtime_error);
  EXPECT_EQ(content_of(folder / "a"), "two");
  EXPECT_EQ(files_in(folder), 1) << "nothing is left beside it";
}

TEST(ReplaceFile, NamesWhatCannotBeReplaced) {
  const fs::path folder = fresh_folder("refused");
  EXPECT_THROW(tw::replace_file(folder / "nowhere" / "a", "one"), tw::FileError);
  fs::create_directories(folder / "folder" / "full");
  EXPECT_THROW(tw::replace_file(folder / "folder", "one"), tw::FileError);
  EXPECT_EQ(files_in(folder), 1);
}

TEST(ReplaceFile, WritesIntoDevices) {
  tw::replace_file("/dev/null", "one");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(ReplaceFile, PartialsOfKilledProcessesAreRemoved) {
  const fs::path folder = fresh_folder("killed");
  for (const char* name : {"a", "a.partial1", "a.partial22", "b.partial1"}) std::ofstream(folder / name) << "x";
  EXPECT_TRUE(tw::remove_partials_of(folder / "a").empty());
  EXPECT_TRUE(fs::exists(folder / "a"));
  EXPECT_TRUE(fs::exists(folder / "b.partial1"));
  EXPECT_EQ(files_in(folder), 2);
}

}  // namespace replace_file_test

// SPDX-License-Identifier: Apache-2.0
#include "full_disk.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/process.hpp>

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

TEST(ReplaceFile, OnAFullDiskTheOldContentStays) {
  const fs::path folder = fresh_folder("full");
  tw::replace_file(folder / "a", "one");
  try {
    const tw::testing::FullDisk full(2);
    tw::replace_file(folder / "a", "more than one");
    ADD_FAILURE() << "no exception";
  } catch (const tw::FileError& error) {
    EXPECT_EQ(error.path(), folder / "a");
    EXPECT_EQ(error.offset(), 2);
    EXPECT_TRUE(std::string(error.what()).ends_with(": cannot be written: File too large")) << error.what();
  }
  EXPECT_EQ(content_of(folder / "a"), "one");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(ReplaceFile, ReplacesWhatALinkPointsTo) {
  const fs::path folder = fresh_folder("link");
  tw::replace_file(folder / "a", "one");
  fs::create_symlink("a", folder / "link");
  tw::replace_file(folder / "link", "two");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(content_of(folder / "a"), "two");
  fs::create_symlink("not_yet_there", folder / "ahead");
  tw::replace_file(folder / "ahead", "three");
  EXPECT_TRUE(fs::is_symlink(folder / "ahead"));
  EXPECT_EQ(content_of(folder / "not_yet_there"), "three");
  fs::create_symlink("there", folder / "here");
  fs::create_symlink("here", folder / "there");
  EXPECT_THROW(tw::replace_file(folder / "here", "four"), tw::FileError);
}

TEST(ReplaceFile, WritesIntoDevices) {
  tw::replace_file("/dev/null", "one");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const fs::path folder = fresh_folder("open");
  const tw::FileDescriptor open(folder / "a", O_WRONLY | O_CREAT, "cannot be written");
  tw::replace_file(tw::concat("/dev/fd/", open.get()), "two");  // like a standard output redirected to a file
  EXPECT_EQ(content_of(folder / "a"), "two");
  EXPECT_EQ(files_in(folder), 1);
}

// In a folder that hosts share, processes of two hosts may have the same id.
TEST(ReplaceFile, PartialsAreNamedAfterProcessAndHost) {
  const fs::path folder = fresh_folder("named");
  std::string name;
  tw::replace_file(folder / "a", [&](const fs::path& partial) {
    name = partial.filename().string();
    std::ofstream(partial) << "x";
  });
  EXPECT_EQ(name, tw::concat("a.partial", getpid(), '_', tw::host_name()));
}

TEST(ReplaceFile, PartialsOfKilledProcessesAreRemoved) {
  const fs::path folder = fresh_folder("killed");
  const auto make = [&] {
    for (const char* name : {"a", "a.partial1", "a.partial22_node7", "a.partial.mine", "a.partial3.mine", "b.partial1"})
      std::ofstream(folder / name) << "x";
  };
  const auto expect_removed = [&] {
    for (const char* name : {"a", "a.partial.mine", "a.partial3.mine", "b.partial1"}) EXPECT_TRUE(fs::exists(folder / name)) << name;
    EXPECT_EQ(files_in(folder), 4);
  };
  make();
  EXPECT_TRUE(tw::remove_partials_of(folder / "a").empty());
  expect_removed();
  make();
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  EXPECT_TRUE(tw::remove_partials_of("a").empty());  // in the working directory
  fs::current_path(before);
  expect_removed();
}

}  // namespace replace_file_test

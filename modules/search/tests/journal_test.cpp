// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <tw/base/error.hpp>
#include <tw/search/journal.hpp>

#include "history.hpp"

namespace tw::search {
namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / ("journal_test_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

const JournalHeader header{.space = 7, .seed = 3, .epoch = 0, .worker = 1, .islands = {2, 1}, .evaluations = 9, .first_trial = 5};

Individual of(int64_t trial) {
  return {.trial = trial, .values = {0.5, std::numeric_limits<double>::quiet_NaN()}, .tag = {1, 2, 3}, .worker = 1, .island = 1};
}

/// Two trials, one of which reports; the second has not ended. @return bytes behind each write
std::vector<int64_t> write_two(const std::filesystem::path& folder) {
  std::vector<int64_t> sizes;
  JournalWriter journal(folder, header, 0);
  const auto write = [&] {
    journal.write();
    sizes.push_back(static_cast<int64_t>(std::filesystem::file_size(folder / "000-00001.journal")));
  };
  write();
  journal.start(of(5), false);
  journal.report(5, 1, 0.25);
  write();
  Individual ended = of(5);
  ended.loss = 0.125;
  ended.state = TrialState::complete;
  ended.seconds = 2;
  journal.end(ended, "");
  journal.note(Record::Kind::arrival, 6, 0);
  journal.adopt(of(9), 0);
  journal.start(of(8), true);
  write();
  return sizes;
}

TEST(Journal, SaysWhatWasWritten) {
  const auto folder = fresh_folder("whole");
  write_two(folder);
  const std::vector<JournalFile> files = read_journal(folder);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].header, header);
  const std::vector<Record>& records = files[0].records;
  ASSERT_EQ(records.size(), 6U);
  EXPECT_EQ(records[0].individual.values[0], 0.5);
  EXPECT_NE(records[0].individual.values[1], records[0].individual.values[1]);
  EXPECT_EQ(records[0].individual.tag, (Tag{1, 2, 3}));
  EXPECT_EQ(records[1].value, 0.25);
  EXPECT_EQ(records[2].individual.loss, 0.125);
  EXPECT_EQ(records[3].kind, Record::Kind::arrival);
  EXPECT_EQ(records[4].individual.trial, 9);
  EXPECT_EQ(records[4].from, 0);
  EXPECT_TRUE(records[5].again);
  const History history = history_of(files);
  EXPECT_EQ(history.ended.at(5).loss, 0.125);
  EXPECT_EQ(history.ended.at(5).values[0], 0.5);
  ASSERT_EQ(history.interrupted.size(), 1U);
  EXPECT_EQ(history.interrupted[0].individual.trial, 8);
  EXPECT_EQ(history.next_trial, 9);
}

/// Whatever was whole at a cut is there, nothing else is, and writing goes on from there.
TEST(Journal, MayBeCutAnywhere) {
  const auto folder = fresh_folder("cut");
  write_two(folder);
  const auto path = folder / "000-00001.journal";
  const auto whole = read_journal(folder)[0];
  std::string content(static_cast<size_t>(std::filesystem::file_size(path)), '\0');
  std::ifstream(path, std::ios::binary).read(content.data(), static_cast<std::streamsize>(content.size()));
  size_t last = 0;
  for (size_t cut = 0; cut <= content.size(); ++cut) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content.substr(0, cut);
    const std::vector<JournalFile> files = read_journal(folder);
    if (files.empty()) {
      ASSERT_EQ(last, 0U);
      JournalWriter(folder, header, 0).write();
      ASSERT_EQ(read_journal(folder).size(), 1U);
      continue;
    }
    ASSERT_GE(files[0].records.size(), last);
    last = files[0].records.size();
    for (size_t i = 0; i < last; ++i) ASSERT_EQ(files[0].records[i].individual.trial, whole.records[i].individual.trial);
    ASSERT_LE(files[0].bytes, static_cast<int64_t>(cut));
    JournalWriter writer(folder, header, files[0].bytes);
    writer.note(Record::Kind::departure, 77, 0);
    writer.write();
    const std::vector<Record> again = read_journal(folder)[0].records;
    ASSERT_EQ(again.size(), last + 1);
    ASSERT_EQ(again.back().individual.trial, 77);
  }
  EXPECT_EQ(last, 6U);
}

TEST(Journal, ADamagedRecordEndsIt) {
  const auto folder = fresh_folder("damage");
  const std::vector<int64_t> sizes = write_two(folder);
  std::fstream file(folder / "000-00001.journal", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(sizes[0] + 20);
  file.put('\x55');
  file.close();
  EXPECT_TRUE(read_journal(folder)[0].records.empty());
}

TEST(Journal, RefusesWhatIsNone) {
  const auto folder = fresh_folder("none");
  std::ofstream(folder / "000-00000.journal") << std::string(5000, 'x');
  EXPECT_THROW(read_journal(folder), FileError);
  EXPECT_TRUE(read_journal(folder / "missing").empty());
}

TEST(Journal, SaysThatTheDiskIsFull) {
  const auto folder = fresh_folder("full");
  std::filesystem::create_symlink("/dev/full", folder / "000-00001.journal");
  try {
    JournalWriter journal(folder, header, 1);
    journal.note(Record::Kind::departure, 1, 0);
    journal.write();
    FAIL() << "nothing thrown";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("000-00001.journal"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tw::search

// SPDX-License-Identifier: Apache-2.0
#include "full_disk.hpp"
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/search/journal.hpp>

#include "gaps.hpp"
#include "history.hpp"

namespace tw::search {
namespace journal_test {

using testing::message_of;

std::filesystem::path fresh_folder(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / ("journal_test_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

const JournalHeader header{.space = 7,
                           .seed = 3,
                           .epoch = 0,
                           .worker = 1,
                           .islands = {2, 1},
                           .objectives = {"error", "s"},
                           .evaluations = 9,
                           .first_trial = 5,
                           .ranks = {1, 4, 2},
                           .propagator_reason = "tpe: few are alike"};

Individual of(int64_t trial) {
  return {.trial = trial, .values = {0.5, std::numeric_limits<double>::quiet_NaN()}, .tag = {1, 2, 3}, .worker = 1, .island = 1};
}

/// Two trials, one of which reports; the second has not ended. @return bytes after each write
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
  ended.objectives = {0.125, 7};
  ended.violation = 0.5;
  ended.state = TrialState::complete;
  ended.seconds = 2;
  journal.end(ended, "", {0.5, -1});
  journal.note(Record::Kind::arrival, 6, 0);
  ended.trial = 9;
  journal.adopt(ended, 0);
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
  for (const size_t of_the_end : {2, 4}) {
    EXPECT_EQ(records[of_the_end].individual.objectives, (std::vector{0.125, 7.0}));
    EXPECT_EQ(records[of_the_end].individual.violation, 0.5);
  }
  EXPECT_EQ(records[2].constraints, (std::vector{0.5, -1.0}));
  EXPECT_EQ(records[3].kind, Record::Kind::arrival);
  EXPECT_EQ(records[4].individual.trial, 9);
  EXPECT_EQ(records[4].from, 0);
  EXPECT_TRUE(records[5].again);
  const History history = history_of(files);
  EXPECT_EQ(history.ended.at(5).loss, 0.125);
  EXPECT_EQ(history.ended.at(5).values[0], 0.5);
  ASSERT_EQ(history.interrupted.size(), 1U);
  EXPECT_EQ(history.interrupted[0].individual.trial, 8);
  EXPECT_EQ(history.next_trial, 10);
}

/// A record of each kind; two ends, without and with constraints. Fields of one type hold different values, so that a test sees when two are swapped.
std::vector<Record> record_of_each_kind() {
  using Kind = Record::Kind;
  const auto whole = [](int64_t trial) {
    return Individual{.trial = trial,
                      .values = {0.5, 2},
                      .loss = 0.25,
                      .objectives = {0.25, 7},
                      .violation = 0.75,
                      .state = TrialState::infeasible,
                      .tag = {.run = 1, .generation = 2, .index = 3},
                      .worker = 4,
                      .island = 5,
                      .moves = 6,
                      .seconds = 1.5};
  };
  const auto ended = [](int64_t trial, TrialState state) {
    return Individual{.trial = trial, .loss = 0.25, .objectives = {0.25, 7}, .violation = 0.75, .state = state, .seconds = 1.5};
  };
  std::vector<Record> records{
      {.kind = Kind::start, .individual = whole(11), .again = true},
      {.kind = Kind::end, .individual = ended(12, TrialState::failed), .message = "out of memory"},
      {.kind = Kind::end, .individual = ended(13, TrialState::complete), .constraints = {0.75, -1}},
      {.kind = Kind::report, .individual = {.trial = 14}, .step = 3, .value = 0.125},
      {.kind = Kind::arrival, .individual = {.trial = 15, .moves = 1}},
      {.kind = Kind::departure, .individual = {.trial = 16, .moves = 2}},
      {.kind = Kind::adoption, .individual = whole(17), .from = 8},
      {.kind = Kind::pause, .individual = {.trial = 18}},
      {.kind = Kind::resume, .individual = {.trial = 19}},
      {.kind = Kind::copy, .individual = {.trial = 20, .values = {0.5, 2}}, .step = 3, .original = 9},
      {.kind = Kind::loss, .individual = {.trial = 21}, .blame = Blame::sole},
      {.kind = Kind::known, .individual = whole(-2)},
  };
  for (size_t i = 0; i < records.size(); ++i) records[i].time = 1000.5 + static_cast<double>(i);
  return records;
}

void write(JournalWriter& journal, const Record& record) {
  using Kind = Record::Kind;
  const Individual& individual = record.individual;
  switch (record.kind) {
    case Kind::start: return journal.start(individual, record.again);
    case Kind::end: return journal.end(individual, record.message, record.constraints);
    case Kind::report: return journal.report(individual.trial, record.step, record.value);
    case Kind::arrival:
    case Kind::departure:
    case Kind::pause:
    case Kind::resume: return journal.note(record.kind, individual.trial, individual.moves);
    case Kind::adoption: return journal.adopt(individual, record.from);
    case Kind::copy: return journal.copy(individual, record.step, record.original);
    case Kind::loss: return journal.record_loss(individual.trial, record.blame);
    case Kind::known: return journal.record_known(individual);
  }
}

void expect_same(const Record& record, const Record& expected) {
  const Individual& individual = record.individual;
  const Individual& wanted = expected.individual;
  EXPECT_EQ(record.kind, expected.kind);
  EXPECT_EQ(record.time, expected.time);
  EXPECT_EQ(individual.trial, wanted.trial);
  EXPECT_EQ(individual.values, wanted.values);
  EXPECT_EQ(individual.loss, wanted.loss);
  EXPECT_EQ(individual.objectives, wanted.objectives);
  EXPECT_EQ(individual.violation, wanted.violation);
  EXPECT_EQ(individual.state, wanted.state);
  EXPECT_EQ(individual.tag, wanted.tag);
  EXPECT_EQ(individual.worker, wanted.worker);
  EXPECT_EQ(individual.island, wanted.island);
  EXPECT_EQ(individual.moves, wanted.moves);
  EXPECT_EQ(individual.seconds, wanted.seconds);
  EXPECT_EQ(record.from, expected.from);
  EXPECT_EQ(record.again, expected.again);
  EXPECT_EQ(record.step, expected.step);
  EXPECT_EQ(record.value, expected.value);
  EXPECT_EQ(record.original, expected.original);
  EXPECT_EQ(record.blame, expected.blame);
  EXPECT_EQ(record.message, expected.message);
  EXPECT_EQ(record.constraints, expected.constraints);
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}
std::string to_hex(const std::string& bytes) {
  std::string digits;
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

/// The bytes of a file of version 4: the header, then record_of_each_kind().
const std::vector<std::string> version_4{
    "740000001e3815a454574a524e4c303407000000000000000300000000000000000000000100000009000000000000000500000000000000020000000200000001"
    "0000000300000001000000040000000200000002000000050000006572726f720100000073120000007470653a206665772061726520616c696b65",
    "6b000000e7726912000000000000448f400b0000000000000002000000000000000000e03f0000000000000040000000000000d03f02000000000000000000d03f"
    "0000000000001c40000000000000e83f04010000000200000003000000040000000500000006000000000000000000f83f01",
    "4f00000042da700a0100000000004c8f400c00000000000000000000000000d03f02000000000000000000d03f0000000000001c40000000000000e83f03000000"
    "000000f83f0d0000006f7574206f66206d656d6f7279",
    "56000000879b4c99010000000000548f400d00000000000000000000000000d03f02000000000000000000d03f0000000000001c40000000000000e83f01000000"
    "000000f83f0000000002000000000000000000e83f000000000000f0bf",
    "21000000ef83eb1a0200000000005c8f400e000000000000000300000000000000000000000000c03f",
    "1500000043551a50030000000000648f400f0000000000000001000000",
    "15000000ffc24d9a0400000000006c8f40100000000000000002000000",
    "6e0000004b70dd6d050000000000748f40110000000000000002000000000000000000e03f0000000000000040000000000000d03f02000000000000000000d03f"
    "0000000000001c40000000000000e83f04010000000200000003000000040000000500000006000000000000000000f83f08000000",
    "15000000d90ad97c0600000000007c8f40120000000000000000000000",
    "15000000b823f4ff070000000000848f40130000000000000000000000",
    "35000000bb5778bc0800000000008c8f40140000000000000002000000000000000000e03f000000000000004003000000000000000900000000000000",
    "1200000028ce3b82090000000000948f40150000000000000002",
    "6a00000025cf46080b00000000009c8f40feffffffffffffff02000000000000000000e03f0000000000000040000000000000d03f02000000000000000000d03f"
    "0000000000001c40000000000000e83f04010000000200000003000000040000000500000006000000000000000000f83f",
};

/// Readers and writers share one list of fields: only fixed bytes show that it has changed.
TEST(Journal, FilesOfThisVersionKeepTheirBytes) {
  const auto folder = fresh_folder("bytes");
  const auto path = folder / "000-00001.journal";
  const std::vector<Record> expected = record_of_each_kind();
  std::ofstream file(path, std::ios::binary);
  for (const std::string& each : version_4) file << from_hex(each);
  file.close();
  const std::vector<JournalFile> files = read_journal(folder);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].header, header);
  ASSERT_EQ(files[0].records.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(concat("record ", i));
    expect_same(files[0].records[i], expected[i]);
  }

  JournalWriter journal(folder, header, 0);
  for (const Record& each : expected) write(journal, each);
  journal.write();
  const std::string written = content_of(path);
  ASSERT_EQ(version_4.size(), expected.size() + 1);
  size_t at = 0;
  for (size_t i = 0; i < version_4.size(); ++i) {
    const std::string bytes = from_hex(version_4[i]);
    std::string own = written.substr(std::min(at, written.size()), bytes.size());
    // The checksum and the time differ in each run. The time follows the size, the checksum and the kind; the header has none.
    if (i > 0 && own.size() > 17) own.replace(4, 4, bytes, 4, 4).replace(9, 8, bytes, 9, 8);
    EXPECT_EQ(to_hex(own), version_4[i]) << (i == 0 ? "the header" : concat("record ", i - 1));
    at += bytes.size();
  }
  EXPECT_EQ(written.size(), at);
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

/// At the end it is what a killed process leaves. Anywhere else it would take whole records with it.
TEST(Journal, ADamagedRecordEndsItOrIsRefused) {
  const auto folder = fresh_folder("damage");
  const auto damaged_at = [&](int64_t byte) {
    std::fstream file(folder / "000-00001.journal", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(byte);
    const int was = file.get();
    file.seekp(byte);
    file.put(static_cast<char>(was ^ 0x55));
    file.close();
    return message_of<FileError>([&] { EXPECT_EQ(read_journal(folder).at(0).records.size(), 5U); });
  };
  const int64_t header_bytes = write_two(folder)[0];
  EXPECT_NE(damaged_at(20).find(concat("000-00001.journal at byte 0: is damaged, and at byte ", header_bytes)), std::string::npos);
  for (const int64_t in_record : {0, 5, 20}) {  // its size, checksum and content
    const int64_t at = write_two(folder)[0];
    EXPECT_NE(damaged_at(at + in_record).find(concat("at byte ", at, ": is damaged")), std::string::npos) << in_record;
  }
  EXPECT_EQ(damaged_at(write_two(folder).back() - 1), "nothing thrown");
}

/// Of two islands with a worker each: trial 1 moves from one to the other. Whichever record is missing from one file, the other one tells.
TEST(Journal, WhatOneFileLacksIsSeenInOthers) {
  using Kind = Record::Kind;
  const auto record = [](Kind kind, int64_t trial, int32_t moves) {
    return Record{.kind = kind, .individual = {.trial = trial, .state = TrialState::complete, .moves = moves}};
  };
  const auto file_of = [](int epoch, int worker, std::vector<Record> records) {
    JournalFile file;
    file.header.epoch = epoch;
    file.header.worker = worker;
    file.header.islands = {1, 1};
    file.records = std::move(records);
    return file;
  };
  const std::vector<JournalFile> whole{file_of(0, 0, {record(Kind::start, 1, 0), record(Kind::end, 1, 0), record(Kind::departure, 1, 0)}),
                                       file_of(0, 1, {record(Kind::start, 2, 0), record(Kind::adoption, 1, 1)})};
  EXPECT_EQ(gap_in(whole, false), "");
  EXPECT_EQ(gap_in({}, false), "");
  std::vector<JournalFile> cut = whole;
  cut[1].records.pop_back();
  EXPECT_EQ(gap_in(cut, false), "") << "it was on its way";
  EXPECT_EQ(left_and_not_arrived(cut, {0}), (std::set<Stay>{{1, 0}}));
  EXPECT_TRUE(left_and_not_arrived(cut, {1}).empty()) << "of another island";
  EXPECT_TRUE(left_and_not_arrived(whole, {0}).empty());
  cut = whole;
  cut[0].records.pop_back();
  EXPECT_EQ(gap_in(cut, false), "trial 1 arrived on an island, but its departure from another island is missing");
  cut[0].records.pop_back();
  EXPECT_EQ(gap_in(cut, false), "the end of trial 1 is missing");
  // It is kept: whoever took it in has all of it. In the next layout it is at home again, and nothing is missing.
  const History history = history_of(cut);
  EXPECT_EQ(history.ended.at(1).state, TrialState::complete);
  EXPECT_EQ(history.ended.at(1).moves, 0);
  cut.push_back(file_of(1, 0, {record(Kind::arrival, 1, 0)}));
  EXPECT_EQ(gap_in(cut, false), "");
  // A number that anyone has heard of is not given again.
  EXPECT_EQ(history_of({whole[1]}).next_trial, 3);
  EXPECT_EQ(history_of({file_of(0, 1, {record(Kind::arrival, 8, 0)})}).next_trial, 9);
}

TEST(Journal, RefusesWhatIsNone) {
  const auto folder = fresh_folder("none");
  std::ofstream(folder / "000-00000.journal") << std::string(5000, 'x');
  EXPECT_THROW(read_journal(folder), FileError);
  EXPECT_TRUE(read_journal(folder / "missing").empty());
}

/// What did not fit is written once there is room, and nothing twice.
TEST(Journal, SaysThatTheDiskIsFull) {
  const auto folder = fresh_folder("full");
  JournalWriter journal(folder, header, 0);
  journal.note(Record::Kind::departure, 1, 0);
  journal.note(Record::Kind::departure, 2, 0);
  {
    const testing::FullDisk disk(std::filesystem::file_size(folder / "000-00001.journal") + 10);
    EXPECT_NE(message_of<FileError>([&] { journal.write(); }).find("000-00001.journal at byte 0: cannot be written: "), std::string::npos);
  }
  EXPECT_TRUE(read_journal(folder)[0].records.empty());
  journal.write();
  const std::vector<Record> records = read_journal(folder)[0].records;
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].individual.trial, 2);
}

}  // namespace journal_test
}  // namespace tw::search

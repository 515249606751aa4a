// SPDX-License-Identifier: Apache-2.0
// A file is a sequence of records: bytes that follow (uint32), CRC-32 of these (uint32), kind (uint8), fields. The first one holds the header.
#include <tw/search/journal.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/number_text.hpp>

#include "bytes.hpp"

namespace tw::search {
namespace {

constexpr uint64_t magic = 0x34304c4e524a5754;  // "TWJRNL04"
constexpr size_t prefix = 2 * sizeof(uint32_t);

uint32_t checksum(const std::byte* data, size_t size) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(data), static_cast<uInt>(size)));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string file_name(const JournalHeader& header) { return padded_text(header.epoch, 3) + '-' + padded_text(header.worker, 5) + ".journal"; }

void put_header(Bytes& bytes, const JournalHeader& header) {
  put(bytes, magic);
  put(bytes, header.space);
  put(bytes, header.seed);
  put(bytes, header.epoch);
  put(bytes, header.worker);
  put(bytes, header.evaluations);
  put(bytes, header.first_trial);
  put(bytes, header.islands);
  put(bytes, header.ranks);
  put(bytes, header.objectives);
  put(bytes, header.breeding);
}

/// @return whether it is one
bool get_header(Reading& reading, JournalHeader& header) {
  if (reading.get<uint64_t>() != magic) return false;
  header.space = reading.get<uint64_t>();
  header.seed = reading.get<uint64_t>();
  header.epoch = reading.get<int32_t>();
  header.worker = reading.get<int32_t>();
  header.evaluations = reading.get<int64_t>();
  header.first_trial = reading.get<int64_t>();
  header.islands = reading.get_values<int32_t>();
  header.ranks = reading.get_values<int32_t>();
  header.objectives = reading.get_texts();
  header.breeding = reading.get_text();
  return reading.is_good() && reading.at_end();
}

bool get_record(Reading& reading, Record& record) {
  record.kind = reading.get<Record::Kind>();
  record.time = reading.get<double>();
  switch (record.kind) {
    case Record::Kind::start:
      record.individual = reading.get_individual();
      record.again = reading.get<bool>();
      break;
    case Record::Kind::end:
      record.individual.trial = reading.get<int64_t>();
      record.individual.loss = reading.get<double>();
      record.individual.objectives = reading.get_values();
      record.individual.violation = reading.get<double>();
      record.individual.state = reading.get<TrialState>();
      record.individual.seconds = reading.get<double>();
      record.message = reading.get_text();
      if (!reading.at_end()) record.constraints = reading.get_values();
      break;
    case Record::Kind::report:
      record.individual.trial = reading.get<int64_t>();
      record.step = reading.get<int64_t>();
      record.value = reading.get<double>();
      break;
    case Record::Kind::arrival:
    case Record::Kind::departure:
    case Record::Kind::pause:
    case Record::Kind::resume:
      record.individual.trial = reading.get<int64_t>();
      record.individual.moves = reading.get<int32_t>();
      break;
    case Record::Kind::adoption:
      record.individual = reading.get_individual();
      record.from = reading.get<int32_t>();
      break;
    case Record::Kind::copy:
      record.individual.trial = reading.get<int64_t>();
      record.individual.values = reading.get_values();
      record.step = reading.get<int64_t>();
      record.original = reading.get<int64_t>();
      break;
    case Record::Kind::loss:
      record.individual.trial = reading.get<int64_t>();
      record.blame = reading.get<Blame>();
      break;
    case Record::Kind::known: record.individual = reading.get_individual(); break;
    default: return false;
  }
  return reading.is_good() && reading.at_end();
}

Bytes content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path, 0, "cannot be opened");
  Bytes bytes(static_cast<size_t>(std::filesystem::file_size(path)));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file && !bytes.empty()) throw FileError(path, 0, "cannot be read");
  return bytes;
}

/// The payload of the record at `at`; empty: it is not whole.
Bytes payload_at(const Bytes& bytes, size_t at) {
  if (bytes.size() - at < prefix) return {};
  Reading reading(bytes.data() + at, prefix);
  const size_t size = reading.get<uint32_t>();
  const auto expected = reading.get<uint32_t>();
  if (size == 0 || size > bytes.size() - at - prefix) return {};
  const std::byte* payload = bytes.data() + at + prefix;
  if (checksum(payload, size) != expected) return {};
  return {payload, payload + size};
}

/// What a process that was killed left behind at the end of a file is the beginning of one record. @throws FileError for anything else
void expect_cut(const std::filesystem::path& path, const Bytes& bytes, size_t at) {
  for (size_t next = at + 1; next < bytes.size(); ++next) {
    if (payload_at(bytes, next).empty()) continue;
    throw FileError(path, static_cast<int64_t>(at),
                    concat("is damaged, and at byte ", next, " a whole record follows. Cut the file to ", at, " bytes to go on without it"));
  }
}

/// @return whether it has a whole header
bool read_file(JournalFile& file) {
  const Bytes bytes = content_of(file.path);
  const Bytes first = payload_at(bytes, 0);
  if (first.empty()) expect_cut(file.path, bytes, 0);
  if (first.empty() && bytes.size() < 4096) return false;
  Reading header(first.data(), first.size());
  if (!get_header(header, file.header)) throw FileError(file.path, 0, "is no journal of a search, or one of another version than 4");
  size_t at = prefix + first.size();
  while (true) {
    const Bytes payload = payload_at(bytes, at);
    if (payload.empty()) break;
    Record record;
    Reading reading(payload.data(), payload.size());
    if (!get_record(reading, record)) throw FileError(file.path, static_cast<int64_t>(at), "has a record that this version does not read");
    file.records.push_back(std::move(record));
    at += prefix + payload.size();
  }
  expect_cut(file.path, bytes, at);
  file.bytes = static_cast<int64_t>(at);
  return true;
}

}  // namespace

std::vector<std::filesystem::path> journal_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  if (!std::filesystem::exists(folder)) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".journal") paths.push_back(entry.path());
  }
  return paths;
}

std::vector<JournalFile> read_journal(const std::filesystem::path& folder) {
  std::vector<JournalFile> files;
  for (const std::filesystem::path& path : journal_files(folder)) {
    JournalFile file{.path = path};
    if (read_file(file)) files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const JournalFile& a, const JournalFile& b) {
    return std::pair(a.header.epoch, a.header.worker) < std::pair(b.header.epoch, b.header.worker);
  });
  return files;
}

JournalWriter::JournalWriter(const std::filesystem::path& folder, const JournalHeader& header, int64_t bytes) : path_(folder / file_name(header)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) throw FileError(path_, 0, concat("cannot be opened: ", std::generic_category().message(errno)));
  if (::ftruncate(fd_, bytes) != 0 || ::lseek(fd_, 0, SEEK_END) < 0) {
    const int error = errno;
    ::close(fd_);
    throw FileError(path_, bytes, concat("cannot be cut: ", std::generic_category().message(error)));
  }
  if (bytes > 0) return;
  pending_.resize(prefix);
  put_header(pending_, header);
  close_record(0);
  write();
}

JournalWriter::~JournalWriter() {
  if (fd_ >= 0) ::close(fd_);
}

size_t JournalWriter::open_record(Record::Kind kind) {
  const size_t at = pending_.size();
  pending_.resize(at + prefix);
  put(pending_, kind);
  put(pending_, now());
  return at;
}

void JournalWriter::close_record(size_t at) {
  const auto size = static_cast<uint32_t>(pending_.size() - at - prefix);
  const uint32_t crc = checksum(pending_.data() + at + prefix, size);
  std::memcpy(pending_.data() + at, &size, sizeof size);
  std::memcpy(pending_.data() + at + sizeof size, &crc, sizeof crc);
}

void JournalWriter::start(const Individual& individual, bool again) {
  const size_t at = open_record(Record::Kind::start);
  put(pending_, individual);
  put(pending_, again);
  close_record(at);
}

/// Constraints are left out where there are none, as they were before single ones were kept: files of either kind can be read.
void JournalWriter::end(const Individual& individual, const std::string& message, const std::vector<double>& constraints) {
  const size_t at = open_record(Record::Kind::end);
  put(pending_, individual.trial);
  put(pending_, individual.loss);
  put(pending_, individual.objectives);
  put(pending_, individual.violation);
  put(pending_, individual.state);
  put(pending_, individual.seconds);
  put(pending_, message);
  if (!constraints.empty()) put(pending_, constraints);
  close_record(at);
}

void JournalWriter::report(int64_t trial, int64_t step, double value) {
  const size_t at = open_record(Record::Kind::report);
  put(pending_, trial);
  put(pending_, step);
  put(pending_, value);
  close_record(at);
}

void JournalWriter::note(Record::Kind kind, int64_t trial, int32_t moves) {
  const size_t at = open_record(kind);
  put(pending_, trial);
  put(pending_, moves);
  close_record(at);
}

void JournalWriter::adopt(const Individual& individual, int32_t from) {
  const size_t at = open_record(Record::Kind::adoption);
  put(pending_, individual);
  put(pending_, from);
  close_record(at);
}

void JournalWriter::copy(const Individual& individual, int64_t step, int64_t original) {
  const size_t at = open_record(Record::Kind::copy);
  put(pending_, individual.trial);
  put(pending_, individual.values);
  put(pending_, step);
  put(pending_, original);
  close_record(at);
}

void JournalWriter::lose(int64_t trial, Blame blame) {
  const size_t at = open_record(Record::Kind::loss);
  put(pending_, trial);
  put(pending_, blame);
  close_record(at);
}

void JournalWriter::know(const Individual& individual) {
  const size_t at = open_record(Record::Kind::known);
  put(pending_, individual);
  close_record(at);
}

void JournalWriter::write() {
  while (!pending_.empty()) {
    const ssize_t written = ::write(fd_, pending_.data(), pending_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw FileError(path_, 0, concat("cannot be written: ", std::generic_category().message(errno)));
    pending_.erase(pending_.begin(), pending_.begin() + written);  // at once: what is written must not be written again
  }
}

}  // namespace tw::search

// SPDX-License-Identifier: Apache-2.0
// A file is a sequence of records: number of bytes that follow (uint32), their CRC-32 (uint32), kind (uint8), fields. The first record holds the
// header.
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

namespace tw {

template <>
struct Fields<search::JournalHeader> {
  using H = search::JournalHeader;
  static constexpr auto all = std::tuple(&H::space, &H::seed, &H::epoch, &H::worker, &H::evaluations, &H::first_trial, &H::islands, &H::ranks,
                                         &H::objectives, &H::propagator_reason);
};

}  // namespace tw

namespace tw::search {
namespace {

constexpr uint64_t magic = 0x34304c4e524a5754;  // "TWJRNL04"
constexpr size_t prefix = 2 * sizeof(uint32_t);

uint32_t checksum(const std::byte* data, size_t size) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(data), static_cast<uInt>(size)));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string file_name(const JournalHeader& header) { return padded_text(header.epoch, 3) + '-' + padded_text(header.worker, 5) + ".journal"; }

/// Calls `field` with each field of records of this kind, in file order. @return false if the kind is unknown
template <class Field>
bool visit_fields(Record& r, const Field& field) {
  const auto all = [&](auto&... each) {
    (field(each), ...);
    return true;
  };
  Individual& i = r.individual;
  switch (r.kind) {
    case Record::Kind::start: return all(i, r.again);
    case Record::Kind::end: return all(i.trial, i.loss, i.objectives, i.violation, i.state, i.seconds, r.message);
    case Record::Kind::report: return all(i.trial, r.step, r.value);
    case Record::Kind::arrival:
    case Record::Kind::departure:
    case Record::Kind::pause:
    case Record::Kind::resume: return all(i.trial, i.moves);
    case Record::Kind::adoption: return all(i, r.from);
    case Record::Kind::copy: return all(i.trial, i.values, r.step, r.original);
    case Record::Kind::loss: return all(i.trial, r.blame);
    case Record::Kind::known: return all(i);
  }
  return false;
}

bool get_record(ByteReader& reader, Record& record) {
  record.kind = reader.get<Record::Kind>();
  record.time = reader.get<double>();
  const bool is_known = visit_fields(record, [&](auto& field) { field = reader.get<std::remove_reference_t<decltype(field)>>(); });
  if (record.kind == Record::Kind::end && !reader.at_end()) record.constraints = reader.get<std::vector<double>>();
  return is_known && reader.is_good() && reader.at_end();
}

Bytes content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path, 0, "cannot be opened");
  Bytes bytes(static_cast<size_t>(std::filesystem::file_size(path)));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file && !bytes.empty()) throw FileError(path, 0, "cannot be read");
  return bytes;
}

/// The payload of the record at byte `at`; empty if the record is incomplete or invalid.
Bytes payload_at(const Bytes& bytes, size_t at) {
  if (bytes.size() - at < prefix) return {};
  ByteReader reading(bytes.data() + at, prefix);
  const size_t size = reading.get<uint32_t>();
  const auto expected = reading.get<uint32_t>();
  if (size == 0 || size > bytes.size() - at - prefix) return {};
  const std::byte* payload = bytes.data() + at + prefix;
  if (checksum(payload, size) != expected) return {};
  return {payload, payload + size};
}

/// Accepts an invalid end of the file that may be the beginning of one record, as a killed process leaves it. @throws FileError if a valid record
/// follows
void expect_cut(const std::filesystem::path& path, const Bytes& bytes, size_t at) {
  for (size_t next = at + 1; next < bytes.size(); ++next) {
    if (payload_at(bytes, next).empty()) continue;
    throw FileError(
        path, static_cast<int64_t>(at),
        concat("is damaged, and at byte ", next, " a valid record follows. To continue without the rest, truncate the file to ", at, " bytes"));
  }
}

/// @return whether the header is complete
bool read_file(JournalFile& file) {
  const Bytes bytes = content_of(file.path);
  const Bytes first = payload_at(bytes, 0);
  if (first.empty()) expect_cut(file.path, bytes, 0);
  if (first.empty() && bytes.size() < 4096) return false;
  ByteReader header(first.data(), first.size());
  const bool is_journal = header.get<uint64_t>() == magic;
  file.header = header.get<JournalHeader>();
  if (!is_journal || !header.is_good() || !header.at_end())
    throw FileError(file.path, 0, "is not the journal of a search, or its format is not version 4");
  size_t at = prefix + first.size();
  while (true) {
    const Bytes payload = payload_at(bytes, at);
    if (payload.empty()) break;
    Record record;
    ByteReader reading(payload.data(), payload.size());
    if (!get_record(reading, record))
      throw FileError(file.path, static_cast<int64_t>(at), "has a record that this version of Torchweave cannot read");
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
    throw FileError(path_, bytes, concat("cannot be truncated: ", std::generic_category().message(error)));
  }
  if (bytes > 0) return;
  pending_.resize(prefix);
  put(pending_, magic);
  put(pending_, header);
  close_record(0);
  write();
}

JournalWriter::~JournalWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void JournalWriter::append(Record record) {
  const size_t at = pending_.size();
  pending_.resize(at + prefix);
  put(pending_, record.kind);
  put(pending_, now());
  visit_fields(record, [&](const auto& field) { put(pending_, field); });
  // Left out if there are none. Files written before single constraints were recorded have none either, so both can be read.
  if (!record.constraints.empty()) put(pending_, record.constraints);
  close_record(at);
}

void JournalWriter::close_record(size_t at) {
  const auto size = static_cast<uint32_t>(pending_.size() - at - prefix);
  const uint32_t crc = checksum(pending_.data() + at + prefix, size);
  std::memcpy(pending_.data() + at, &size, sizeof size);
  std::memcpy(pending_.data() + at + sizeof size, &crc, sizeof crc);
}

void JournalWriter::start(const Individual& individual, bool again) {
  append({.kind = Record::Kind::start, .individual = individual, .again = again});
}
void JournalWriter::end(const Individual& individual, const std::string& message, const std::vector<double>& constraints) {
  append({.kind = Record::Kind::end, .individual = individual, .message = message, .constraints = constraints});
}
void JournalWriter::report(int64_t trial, int64_t step, double value) {
  append({.kind = Record::Kind::report, .individual = {.trial = trial}, .step = step, .value = value});
}
void JournalWriter::note(Record::Kind kind, int64_t trial, int32_t moves) { append({.kind = kind, .individual = {.trial = trial, .moves = moves}}); }
void JournalWriter::adopt(const Individual& individual, int32_t from) {
  append({.kind = Record::Kind::adoption, .individual = individual, .from = from});
}
void JournalWriter::copy(const Individual& individual, int64_t step, int64_t original) {
  append({.kind = Record::Kind::copy, .individual = individual, .step = step, .original = original});
}
void JournalWriter::record_loss(int64_t trial, Blame blame) { append({.kind = Record::Kind::loss, .individual = {.trial = trial}, .blame = blame}); }
void JournalWriter::record_known(const Individual& individual) { append({.kind = Record::Kind::known, .individual = individual}); }

void JournalWriter::write() {
  while (!pending_.empty()) {
    const ssize_t written = ::write(fd_, pending_.data(), pending_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw FileError(path_, 0, concat("cannot be written: ", std::generic_category().message(errno)));
    pending_.erase(pending_.begin(), pending_.begin() + written);  // immediately, so that another call does not write these bytes again
  }
}

}  // namespace tw::search

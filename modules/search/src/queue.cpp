// SPDX-License-Identifier: Apache-2.0
#include "queue.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/base/number_text.hpp>
#include <tw/search/enqueue.hpp>
#include <utility>
#include <vector>

namespace tw::search {
namespace {

namespace fs = std::filesystem;

constexpr const char* as_waiting = ".json";
constexpr const char* as_claimed = ".claimed";
constexpr const char* as_refused = ".refused";
constexpr Seconds between_looks{0.1};

Tag tag_of(int64_t number) { return {.run = -1, .generation = static_cast<int32_t>(number + 1), .index = -1}; }

fs::path path_of(const fs::path& folder, int64_t number, const char* state) { return folder / (padded_text(number, 6) + state); }

/// Numbers and states of all configurations that were ever queued, sorted by number.
std::vector<std::pair<int64_t, std::string>> entries_in(const fs::path& folder) {
  std::vector<std::pair<int64_t, std::string>> entries;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const std::string stem = entry.path().stem().string();
    int64_t number = -1;
    const auto end = std::from_chars(stem.data(), stem.data() + stem.size(), number);
    if (end.ptr == stem.data() + stem.size() && number >= 0) entries.emplace_back(number, entry.path().extension().string());
  }
  std::ranges::sort(entries);
  return entries;
}

NamedTexts texts_in(const fs::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in).get<NamedTexts>();
}

}  // namespace

bool is_queued(const Tag& tag) { return tag.run == -1 && tag.index == -1 && tag.generation > 0; }

int64_t enqueue(const fs::path& folder, const NamedTexts& configuration) {
  const fs::path queue = folder / "queue";
  fs::create_directories(queue);
  const fs::path lock = queue / "lock";
  const FileDescriptor held(lock, O_RDWR | O_CREAT, "cannot be opened");
  if (::flock(held.get(), LOCK_EX) != 0) throw FileError(lock, 0, concat("cannot be locked: ", std::strerror(errno)));
  const auto entries = entries_in(queue);
  const int64_t number = entries.empty() ? 0 : entries.back().first + 1;
  replace_file(path_of(queue, number, as_waiting), nlohmann::json(configuration).dump() + '\n');
  return number;
}

Queue::Queue(const fs::path& folder, const Space& space) : folder_(folder.empty() ? folder : folder / "queue"), space_(space) {}

std::optional<Proposal> Queue::take() {
  if (folder_.empty() || (since_empty_ && since_empty_->elapsed() < between_looks)) return std::nullopt;
  for (const auto& [number, state] : entries_in(folder_)) {
    if (state != as_waiting) continue;
    const fs::path path = path_of(folder_, number, as_claimed);
    std::error_code others_were_faster;
    fs::rename(path_of(folder_, number, as_waiting), path, others_were_faster);
    if (others_were_faster) continue;
    try {
      return Proposal{.values = values_of(space_, texts_in(path), Unnamed::starts), .tag = tag_of(number)};
    } catch (const std::exception& error) {
      const fs::path aside = path_of(folder_, number, as_refused);
      log_warning(aside.string(), ": this queued configuration is not tried: ", error.what());
      fs::rename(path, aside);
    }
  }
  since_empty_.emplace();
  return std::nullopt;
}

void Queue::put_back(const History& all) const {
  if (folder_.empty()) return;
  std::set<int32_t> written;
  const auto note = [&](const Tag& tag) {
    if (is_queued(tag)) written.insert(tag.generation);
  };
  for (const auto& [trial, each] : all.ended) note(each.tag);
  for (const Interrupted& each : all.interrupted) note(each.individual.tag);
  for (const auto& [number, state] : entries_in(folder_)) {
    if (state == as_claimed && !written.contains(tag_of(number).generation)) {
      fs::rename(path_of(folder_, number, as_claimed), path_of(folder_, number, as_waiting));
    }
  }
}

}  // namespace tw::search

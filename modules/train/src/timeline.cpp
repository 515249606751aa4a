// SPDX-License-Identifier: Apache-2.0
#include <tw/train/timeline.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>

namespace tw::train {
namespace {

constexpr size_t most = 1000000;  // limit of spans, and of samples

}  // namespace

void Timeline::begin(const Communicator& comm, const std::filesystem::path& path) {
  path_ = absolute_path(path);
  on_all_ranks(comm, "opening the timeline", [&] {
    if (comm.rank() == 0 && !std::ofstream(path_, std::ios::app)) throw FileError(path_, 0, "cannot be written");
  });
  comm.barrier();  // the only common origin for the steady clocks of different nodes
  origin_ = std::chrono::steady_clock::now();
}

void Timeline::add(const MemorySample& sample) {
  if (samples_.size() < most) samples_.push_back(sample);
}

void Timeline::add(Row row, const char* name, Time begin, Time end, int64_t number) {
  if (spans_.size() < most) spans_.push_back({row, name, begin, end, number});
}

void Timeline::write(const Communicator& comm) const {
  const auto microseconds = [this](Time time) { return std::chrono::duration<double, std::micro>(time - origin_).count(); };
  const auto name_row = [&](const char* what, int row, const std::string& name) {
    return nlohmann::json{{"ph", "M"}, {"name", what}, {"pid", int{comm.rank()}}, {"tid", row}, {"args", {{"name", name}}}}.dump();
  };
  std::string mine = name_row("process_name", 0, "rank " + std::to_string(comm.rank()));
  mine += ",\n" + name_row("thread_name", 0, "compute") + ",\n" + name_row("thread_name", 1, "communication");
  for (const Span& span : spans_) {
    const nlohmann::json event{{"ph", "X"},
                               {"name", span.name},
                               {"pid", int{comm.rank()}},
                               {"tid", static_cast<int>(span.row)},
                               {"ts", microseconds(span.begin)},
                               {"dur", microseconds(span.end) - microseconds(span.begin)},
                               {"args", {{span.row == Row::compute ? "step" : "bucket", span.number}}}};
    mine += ",\n" + event.dump();
  }
  for (const auto& [time, during, held] : samples_) {
    nlohmann::ordered_json uses;
    for (size_t use = 0; use < memory_uses; ++use) uses[name_of(static_cast<MemoryUse>(use))] = held.bytes[use];
    mine +=
        ",\n" + nlohmann::ordered_json{{"ph", "C"}, {"name", "memory"}, {"pid", int{comm.rank()}}, {"ts", microseconds(time)}, {"args", uses}}.dump();
  }
  const std::vector<std::string> all = gather_strings(comm, mine, Rank(0));
  on_all_ranks(comm, "writing the timeline", [&] {
    if (comm.rank() != 0) return;
    std::string text = "{\"traceEvents\": [\n";
    for (size_t rank = 0; rank < all.size(); ++rank) text += (rank == 0 ? "" : ",\n") + all[rank];
    replace_file(path_, text + "\n]}\n");
  });
}

}  // namespace tw::train

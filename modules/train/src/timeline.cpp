// SPDX-License-Identifier: Apache-2.0
#include <tw/train/timeline.hpp>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/objects.hpp>

namespace tw::train {

void Timeline::add(Row row, const char* name, Time begin, Time end, int64_t number) {
  constexpr size_t most = 1000000;
  if (spans_.size() < most) spans_.push_back({row, name, begin, end, number});
}

void Timeline::write(const Communicator& comm, const std::filesystem::path& path) const {
  const auto microseconds = [](Time time) { return std::chrono::duration<double, std::micro>(time.time_since_epoch()).count(); };
  double first = spans_.empty() ? 0 : microseconds(spans_.front().begin);
  for (const std::string& other : allgather_strings(comm, std::to_string(first))) first = std::min(first, std::stod(other));

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
                               {"ts", microseconds(span.begin) - first},
                               {"dur", microseconds(span.end) - microseconds(span.begin)},
                               {"args", {{span.row == Row::compute ? "step" : "bucket", span.number}}}};
    mine += ",\n" + event.dump();
  }
  const std::vector<std::string> all = gather_strings(comm, mine, Rank(0));
  std::string problem;
  if (comm.rank() == 0) {
    std::ofstream out(path, std::ios::trunc);
    out << "{\"traceEvents\": [\n";
    for (size_t rank = 0; rank < all.size(); ++rank) out << (rank == 0 ? "" : ",\n") << all[rank];
    out << "\n]}\n" << std::flush;
    if (!out) problem = "cannot be written";
  }
  problem = broadcast_string(comm, problem, Rank(0));
  if (!problem.empty()) throw FileError(path, 0, problem);
}

}  // namespace tw::train

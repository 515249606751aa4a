// SPDX-License-Identifier: Apache-2.0
#include "bench_predict.hpp"

#include <algorithm>
#include <iomanip>
#include <tw/algorithms/selection.hpp>
#include <tw/base/config.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/option.hpp>

#include "bench_figures.hpp"

namespace tw::tool {
namespace {

struct LinkOptions {
  double latency_us;
  double gbit_per_second;
};

void visit(LinkOptions& link, OptionVisitor& visitor) {
  visitor.field("latency_us", link.latency_us, {.least = 0}, {.meaning = "latency of a message", .unit = "us"});
  visitor.field("gbit_per_second", link.gbit_per_second, {.least = 0, .excludes_least = true},
                {.meaning = "bandwidth in each direction, of all ranks of a node together"});
}

struct ClusterOptions {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  LinkOptions within{1, 40};
  LinkOptions between{30, 1};
};

void visit(ClusterOptions& cluster, OptionVisitor& visitor) {
  visitor.field("nodes", cluster.nodes, at_least(1, 1000000), {.meaning = "nodes of the cluster"});
  visitor.field("ranks_per_node", cluster.ranks_per_node, at_least(1, 1000), {.meaning = "ranks on each node"});
  visitor.group("within", cluster.within);
  visitor.group("between", cluster.between);
}

algorithms::LinkCost cost_of(const LinkOptions& link) {
  return {std::chrono::duration<double>(link.latency_us * 1e-6), link.gbit_per_second * 1e9 / 8};
}

}  // namespace

algorithms::Cluster read_cluster(const std::filesystem::path& file) {
  Config config = Config::from_file(file);
  ClusterOptions options;
  config.bind(options);
  config.finish();
  return {.nodes = static_cast<int>(options.nodes),
          .ranks_per_node = static_cast<int>(options.ranks_per_node),
          .within = cost_of(options.within),
          .between = cost_of(options.between)};
}

void predict(const algorithms::Cluster& cluster, const std::vector<std::string>& operations, int64_t min_bytes, int64_t max_bytes,
             std::ostream& out) {
  const auto selection = algorithms::Selection::by_price(cluster);
  out << cluster.ranks() << " ranks on " << cluster.nodes << " nodes. Times in ms: total, and the latency in it; * marks what would be selected.\n";
  for (const Collective operation : bench_operations()) {
    const auto methods = algorithms::methods_for(operation, cluster);
    const bool is_asked = std::find(operations.begin(), operations.end(), bench_name(operation)) != operations.end();
    if (!is_asked || methods.empty() || operation == Collective::barrier) continue;
    out << "\n" << bench_name(operation) << "\n";
    for (int64_t bytes = std::max<int64_t>(1, min_bytes); bytes <= max_bytes; bytes *= 4) {
      const algorithms::Choice* choice = selection.choice(operation, bytes);
      const std::string taken = choice == nullptr ? "" : choice->backend;
      out << std::setw(12) << size_text(bytes) << (taken == "mpi" ? "  * mpi: " + choice->reason : "") << "\n";
      for (const std::string_view method : methods) {
        const algorithms::Price price = algorithms::price_of(method, operation, cluster, bytes);
        out << std::setw(12) << (method == taken ? "*" : "") << "  " << std::left << std::setw(20) << method << std::right << std::setw(12)
            << brief_text(1e3 * price.total().count()) << std::setw(12) << brief_text(1e3 * price.latency.count()) << "\n";
      }
    }
  }
}

}  // namespace tw::tool

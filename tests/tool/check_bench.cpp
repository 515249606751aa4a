// SPDX-License-Identifier: Apache-2.0
// check_bench JSON SVG: reads what `torchweave bench comm --compare mpi` wrote on two ranks of one node, and prints what is wrong with it.
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace {

int problems = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::cout << "check_bench: " << what << '\n';
  ++problems;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

// Every line is an object whose figures fit together.
void check_line(const nlohmann::json& line) {
  const std::string text = line.dump();
  const std::string operation = line.at("benchmark");
  const double bytes = line.at("bytes");
  const double us = line.at("median_us");
  expect(line.at("ranks") == 2 && line.at("nodes") == 1, "ranks or nodes: " + text);
  expect(us > 0 && line.at("spread").get<double>() >= 0, "times: " + text);
  expect(line.at("rounds").get<int>() >= 10, "too few rounds: " + text);
  expect(near(line.at("algorithm_gbps"), bytes / us / 1e3), "algorithm bandwidth: " + text);
  const double share = operation == "comm/allgather" || operation == "comm/reduce_scatter" ? 0.5 : 1;  // 2(p-1)/p is 1 for two ranks
  expect(near(line.at("bus_gbps"), share * bytes / us / 1e3), "bus bandwidth: " + text);
  expect(line.at("baseline") == "mpi" && near(line.at("ratio"), line.at("baseline_us").get<double>() / us), "ratio: " + text);
}

void check_json(const std::string& path) {
  using Names = std::set<std::string>;
  const auto with = [](Names names, const Names& more) {
    names.insert(more.begin(), more.end());
    return names;
  };
  const Names both{"shared_memory", "mpi"};
  const Names all = with(both, {"shared_memory/in_place"});
  const std::map<std::string, Names> expected{{"comm/barrier", with(both, {"bruck"})},
                                              {"comm/broadcast", with(all, {"tree", "chain", "double_tree"})},
                                              {"comm/allreduce", with(all, {"ring", "recursive_doubling", "circulant", "double_tree"})},
                                              {"comm/reduce", with(both, {"tree", "chain", "double_tree"})},
                                              {"comm/allgather", with(all, {"ring", "circulant"})},
                                              {"comm/reduce_scatter", with(all, {"ring", "circulant"})},
                                              {"comm/alltoall", {"mpi", "pairwise", "bruck"}},
                                              {"comm/ping_pong", {"mpi"}}};
  std::map<std::string, std::set<std::string>> found;
  std::set<int64_t> sizes;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) {
    const auto line = nlohmann::json::parse(text);
    check_line(line);
    found[line.at("benchmark")].insert(line.at("backend").get<std::string>());
    sizes.insert(line.at("bytes").get<int64_t>());
  }
  expect(found == expected, "not every operation x backend is there");
  expect(sizes == std::set<int64_t>{0, 16, 64, 256, 1024, 4096, 8192}, "the sizes are not those that were asked for");
}

void check_svg(const std::string& path) {
  std::ifstream in(path);
  const std::string svg{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  expect(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), path + " is not an SVG");
  for (const char* words : {">allreduce<", ">ping_pong<", ">shared_memory/in_place<", ">MPI called directly<", ">64 B<", ">4 KiB<", "<polyline"}) {
    expect(svg.find(words) != std::string::npos, std::string(words) + " is missing in " + path);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  check_json(argv[1]);
  check_svg(argv[2]);
  if (problems == 0) std::cout << "check_bench: all is there\n";
  return problems == 0 ? 0 : 1;
}

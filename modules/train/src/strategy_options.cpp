// SPDX-License-Identifier: Apache-2.0
#include <tw/train/strategy_options.hpp>

namespace tw::train {

void visit(StrategyOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, StrategyKind>> kinds{
      {"data", StrategyKind::data},           {"sharded", StrategyKind::sharded}, {"fully_sharded", StrategyKind::fully_sharded},
      {"local_sgd", StrategyKind::local_sgd}, {"diloco", StrategyKind::diloco},   {"parameter_server", StrategyKind::parameter_server}};
  const std::vector<std::pair<std::string, CompressionKind>> compressions{{"none", CompressionKind::none},
                                                                          {"float16", CompressionKind::float16},
                                                                          {"bfloat16", CompressionKind::bfloat16},
                                                                          {"top_k", CompressionKind::top_k},
                                                                          {"power_sgd", CompressionKind::power_sgd}};
  const std::vector<std::pair<std::string, ServerAlgorithm>> algorithms{
      {"downpour", ServerAlgorithm::downpour}, {"easgd", ServerAlgorithm::easgd}, {"eamsgd", ServerAlgorithm::eamsgd}, {"ssp", ServerAlgorithm::ssp}};
  const Condition top_k{"strategy.compression", {"top_k"}};
  const Condition power_sgd{"strategy.compression", {"power_sgd"}};
  const Condition sharded{"strategy.name", {"sharded"}};
  const Condition any_sharded{"strategy.name", {"sharded", "fully_sharded"}};
  const Condition fully_sharded{"strategy.name", {"fully_sharded"}};
  const Condition in_periods{"strategy.name", {"local_sgd", "diloco", "parameter_server"}};
  const Condition diloco{"strategy.name", {"diloco"}};
  const Condition servers{"strategy.name", {"parameter_server"}};
  visitor.field("name", options.kind, kinds, {.meaning = "how the ranks train one model"});
  visitor.field("compression", options.compression, compressions,
                {.meaning = "compression of gradients, with `strategy.name` = data; float16 and bfloat16 also with diloco"});
  visitor.field("top_k_fraction", options.top_k_fraction, {.least = 0, .most = 1, .above = true},
                {.meaning = "share of the elements of a gradient that is sent", .where = {top_k}});
  visitor.field("power_sgd_rank", options.power_sgd_rank, at_least(1), {.meaning = "rank of the matrices that are sent", .where = {power_sgd}});
  visitor.field("release_gradients", options.release_gradients,
                {.meaning = "keep only this rank's share of the reduced gradients (ZeRO 2)", .where = {sharded}});
  visitor.field("one_copy_per_node", options.one_copy_per_node,
                {.meaning = "one copy of the parameters for all ranks of a node", .where = {any_sharded}});
  visitor.field("unit_bytes", options.unit_bytes, {.least = 1},
                {.meaning = "bytes of parameters gathered and released together", .unit = "bytes", .where = {fully_sharded}});
  visitor.field("prefetch_units", options.prefetch_units, at_least(0), {.meaning = "units gathered ahead of their use", .where = {fully_sharded}});
  visitor.field("resident_bytes", options.resident_bytes, {.least = 0},
                {.meaning = "bytes of units that stay gathered between updates", .unit = "bytes", .where = {fully_sharded}});
  visitor.field("period", options.period, at_least(1),
                {.meaning = "steps between two averages or exchanges, which also happen at the end of each epoch",
                 .unit = "steps",
                 .where = {in_periods, {"strategy.algorithm", {"downpour", "easgd", "eamsgd"}}}});
  visitor.field("outer_lr", options.outer_learning_rate, {.least = 0, .above = true},
                {.meaning = "learning rate of the outer step", .where = {diloco}});
  visitor.field("outer_momentum", options.outer_momentum, {.least = 0, .most = 1, .below = true},
                {.meaning = "Nesterov momentum of the outer step", .where = {diloco}});
  visitor.field("algorithm", options.algorithm, algorithms, {.meaning = "how ranks train through servers", .where = {servers}});
  visitor.field("beta", options.beta, {.least = 0, .most = 1, .above = true},
                {.meaning = "how strongly all ranks together pull at the centre in an exchange",
                 .where = {servers, {"strategy.algorithm", {"easgd", "eamsgd"}}}});
  visitor.field("staleness", options.staleness, at_least(0),
                {.meaning = "steps by which the fastest rank may be ahead of the slowest",
                 .unit = "steps",
                 .where = {servers, {"strategy.algorithm", {"ssp"}}}});
}

std::vector<Problem> StrategyOptions::contradictions() const {
  std::vector<Problem> problems;
  const bool half = compression == CompressionKind::float16 || compression == CompressionKind::bfloat16;
  if (compression != CompressionKind::none && kind != StrategyKind::data && !(kind == StrategyKind::diloco && half)) {
    problems.push_back({"strategy.compression", "is for strategy.name = \"data\", and half precision also for \"diloco\"", "\"none\""});
  }
  if (release_gradients && kind != StrategyKind::sharded) {
    problems.push_back({"strategy.release_gradients", "is for strategy.name = \"sharded\"", "false"});
  }
  if (one_copy_per_node && kind != StrategyKind::sharded && kind != StrategyKind::fully_sharded) {
    problems.push_back({"strategy.one_copy_per_node", "is for strategy.name = \"sharded\" and \"fully_sharded\"", "false"});
  }
  return problems;
}

}  // namespace tw::train

// SPDX-License-Identifier: Apache-2.0
#include <tw/train/replica_options.hpp>

namespace tw::train {

void visit(ReplicaOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Meeting>> meetings{{"every_step", Meeting::every_step},
                                                              {"local_sgd", Meeting::local_sgd},
                                                              {"diloco", Meeting::diloco},
                                                              {"parameter_server", Meeting::parameter_server}};
  const std::vector<std::pair<std::string, CompressionKind>> compressions{{"none", CompressionKind::none},
                                                                          {"float16", CompressionKind::float16},
                                                                          {"bfloat16", CompressionKind::bfloat16},
                                                                          {"top_k", CompressionKind::top_k},
                                                                          {"power_sgd", CompressionKind::power_sgd}};
  const std::vector<std::pair<std::string, ServerAlgorithm>> algorithms{
      {"downpour", ServerAlgorithm::downpour}, {"easgd", ServerAlgorithm::easgd}, {"eamsgd", ServerAlgorithm::eamsgd}, {"ssp", ServerAlgorithm::ssp}};
  const Condition top_k{"replicas.compression", {"top_k"}};
  const Condition power_sgd{"replicas.compression", {"power_sgd"}};
  const Condition seldom{"replicas.meet", {"local_sgd", "diloco", "parameter_server"}};
  const Condition diloco{"replicas.meet", {"diloco"}};
  const Condition servers{"replicas.meet", {"parameter_server"}};
  visitor.field("meet", options.meet, meetings, {.meaning = "how replicas along `mesh.data` train one model"});
  visitor.field("compression", options.compression, compressions,
                {.meaning = "compression of gradients, with `replicas.meet` = every_step; float16 and bfloat16 also with diloco"});
  visitor.field("top_k_fraction", options.top_k_fraction, {.least = 0, .most = 1, .excludes_least = true},
                {.meaning = "share of the elements of a gradient that is sent", .applies_if = {top_k}});
  visitor.field("power_sgd_rank", options.power_sgd_rank, at_least(1), {.meaning = "rank of the matrices that are sent", .applies_if = {power_sgd}});
  visitor.field("ranks_per_group", options.ranks_per_group, at_least(1),
                {.meaning = "consecutive ranks along `mesh.data` that sum gradients in every step, and meet the others as one replica",
                 .unit = "ranks",
                 .applies_if = {seldom}});
  visitor.field("period", options.period, at_least(1),
                {.meaning = "steps between two averages or exchanges, which also happen at the end of each epoch",
                 .unit = "steps",
                 .applies_if = {seldom, {"replicas.algorithm", {"downpour", "easgd", "eamsgd"}}}});
  visitor.field("outer_lr", options.outer_learning_rate, {.least = 0, .excludes_least = true},
                {.meaning = "learning rate of the outer step", .applies_if = {diloco}});
  visitor.field("outer_momentum", options.outer_momentum, {.least = 0, .most = 1, .excludes_most = true},
                {.meaning = "Nesterov momentum of the outer step", .applies_if = {diloco}});
  visitor.field("algorithm", options.algorithm, algorithms, {.meaning = "how ranks train through servers", .applies_if = {servers}});
  visitor.field("beta", options.beta, {.least = 0, .most = 1, .excludes_least = true},
                {.meaning = "how strongly all ranks together pull at the centre in an exchange",
                 .applies_if = {servers, {"replicas.algorithm", {"easgd", "eamsgd"}}}});
  visitor.field("staleness", options.staleness, at_least(0),
                {.meaning = "steps by which the fastest rank may be ahead of the slowest",
                 .unit = "steps",
                 .applies_if = {servers, {"replicas.algorithm", {"ssp"}}}});
}

std::vector<Problem> ReplicaOptions::contradictions() const {
  const bool half = compression == CompressionKind::float16 || compression == CompressionKind::bfloat16;
  if (compression == CompressionKind::none || meet == Meeting::every_step || (meet == Meeting::diloco && half)) return {};
  return {{"replicas.compression", "needs replicas.meet = \"every_step\"; float16 and bfloat16 also work with \"diloco\"", "\"none\""}};
}

}  // namespace tw::train

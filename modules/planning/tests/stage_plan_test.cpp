// SPDX-License-Identifier: Apache-2.0
// Plans and profiles as values: figures calculated by hand, JSON, and errors.
#include "message_of.hpp"
#include "random_profile.hpp"

#include <gtest/gtest.h>

#include <limits>

#include <nlohmann/json.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/planning/analytic.hpp>

namespace tw::pipeline {
namespace stage_plan_test {

using test::expect_contains;
using testing::message_of;

/// A chain of a and b; c joins both. `mask` has no batch data and is an input of a and c.
Profile joined() {
  Profile profile{.hash = "joined", .input_bytes = {0, 8}};
  profile.parameters = {{"weight", 100}, {"tied", 10}};
  const auto op = [](const char* name, std::vector<int> inputs, std::vector<int> parameters) {
    return ProfiledOperator{.name = name,
                            .inputs = std::move(inputs),
                            .parameters = std::move(parameters),
                            .forward = {1, 0.5},
                            .backward = {2, 1},
                            .output_bytes = {0, 4},
                            .saved_bytes = {0, 16}};
  };
  profile.operators = {op("mask", {}, {}), op("a", {-1, 0}, {0, 1}), op("b", {1}, {}), op("c", {0, 1, 2}, {1})};
  return profile;
}

Plan two_stages() {
  Plan plan{.hash = "joined", .batch = 8, .micro_batches = 2};
  plan.stages = {{.operators = {0, 1, 2}, .replicas = 2}, {.operators = {0, 3}, .replicas = 1, .recompute = Recompute::full}};
  return plan;
}

TEST(Prediction, IsThatByHand) {
  const Cluster cluster{.devices = 3, .between_stages = {0.25, 16}, .within_stage = {0.5, 11}, .overlapped_all_reduce = false};
  const Plan plan = predicted(two_stages(), joined(), cluster);
  // 4 rows per micro-batch: 2 on each replica of the first stage, 4 on the second. The stages have three operators and two.
  const StageFigures& first = plan.stages[0].figures;
  const StageFigures& second = plan.stages[1].figures;
  EXPECT_DOUBLE_EQ(first.forward_s, 3 * (1 + 0.5 * 2));
  EXPECT_DOUBLE_EQ(first.backward_s, 3 * (2 + 1 * 2));
  EXPECT_DOUBLE_EQ(second.forward_s, 2 * (1 + 0.5 * 4));
  EXPECT_DOUBLE_EQ(second.backward_s, 2 * (2 + 1 * 4) + second.forward_s) << "computed again";
  EXPECT_DOUBLE_EQ(first.transfer_s, 0.25 + 4 * (4 + 4) / 16.0) << "a and b, all rows to the one replica; the mask stays";
  // A ring of two replicas, and the tied parameter sent to the other stage and back.
  EXPECT_DOUBLE_EQ(first.all_reduce_s, 2 * 1 * (0.5 + 110 / 2.0 / 11) + 2 * (0.25 + 10 / 16.0));
  EXPECT_DOUBLE_EQ(second.all_reduce_s, 2 * (0.25 + 10 / 16.0));
  EXPECT_EQ(first.in_flight, 2);
  EXPECT_EQ(second.in_flight, 1);
  EXPECT_DOUBLE_EQ(first.memory.total(), 110 + 110 + 110 + 220 + 2 * 3 * 16 * 2 + 2 * (2 * 8));
  EXPECT_DOUBLE_EQ(second.memory.total(), 10 + 10 + 20 + 4 * 8 + 2 * 16 * 4 + 2 * (4 * 8));
  // F0 F1 on stage 0 (6 s), 2.25 s to stage 1 (6 s forward, 18 s backward), and back.
  const double last_of_second = 6 + 2.25 + 2 * (6 + 18);
  const double end = last_of_second + 2.25 + 12;
  EXPECT_DOUBLE_EQ(first.exposed_s, first.all_reduce_s);
  EXPECT_DOUBLE_EQ(second.exposed_s, 0);
  EXPECT_DOUBLE_EQ(plan.step_s, end + first.all_reduce_s);
  EXPECT_DOUBLE_EQ(plan.bubble, (2 * (end - 36) + (end - 48)) / (3 * end));
  // Overlapped with the last backward pass of 12 s; the all-reduce takes 12.75 s.
  Cluster overlapped = cluster;
  overlapped.overlapped_all_reduce = true;
  EXPECT_DOUBLE_EQ(predicted(two_stages(), joined(), overlapped).step_s, end + std::max(0.0, first.all_reduce_s - 12));
}

TEST(Prediction, RowsGoUpToWholeOnes) {
  Plan plan = two_stages();
  plan.batch = 9;
  plan.micro_batches = 2;  // 5 rows; 3 on each of two replicas
  EXPECT_DOUBLE_EQ(predicted(plan, joined(), {.devices = 3}).stages[0].figures.forward_s, 3 * (1 + 0.5 * 3));
}

/// An output of an early stage that the last one must have crosses all borders between them.
TEST(Prediction, OutputsAreHandedOnToTheLastStage) {
  Profile profile = joined();
  profile.operators[3].inputs = {0, 2};  // c no longer uses a
  Plan plan{.hash = "joined", .batch = 8, .micro_batches = 2, .stages = {{.operators = {0, 1}}, {.operators = {2}}, {.operators = {0, 3}}}};
  const Cluster cluster{.devices = 3, .between_stages = {0, 1}};
  const Plan without = predicted(plan, profile, cluster);
  profile.outputs = {1, 3};  // no operator uses the output of c
  const Plan with_a = predicted(plan, profile, cluster);
  profile.outputs = {-1};
  const Plan with_input = predicted(plan, profile, cluster);
  const auto transfers = [](const Plan& of) { return std::pair(of.stages[0].figures.transfer_s, of.stages[1].figures.transfer_s); };
  EXPECT_EQ(transfers(without), std::pair(4 * 4.0, 4 * 4.0)) << "a, then b";
  EXPECT_EQ(transfers(with_a), std::pair(4 * 4.0, 4 * (4.0 + 4))) << "a, then a and b";
  EXPECT_EQ(transfers(with_input), std::pair(4 * (4.0 + 8), 4 * (4.0 + 8)));
  EXPECT_EQ(with_a.stages[1].figures.memory.communication - without.stages[1].figures.memory.communication, 2 * 4 * 4) << "what goes out";
  EXPECT_EQ(with_a.stages[2].figures.memory.communication - without.stages[2].figures.memory.communication, 2 * 4 * 4) << "what comes in";
  EXPECT_GT(with_a.step_s, without.step_s);
}

TEST(Check, NamesWhatIsWrongWithAPlan) {
  const Profile profile = joined();
  EXPECT_EQ(problems_of(two_stages(), profile, 3), std::vector<std::string>{});
  const auto problem = [&](const std::function<void(Plan&)>& change, int devices = 3) {
    Plan plan = two_stages();
    change(plan);
    const std::vector<std::string> problems = problems_of(plan, profile, devices);
    EXPECT_FALSE(problems.empty());
    EXPECT_THROW(predicted(plan, profile, {.devices = devices}), ContractError);
    return problems.empty() ? "" : problems.front();
  };
  expect_contains(problem([](Plan& p) { p.hash = "other"; }), "the plan is for a model with hash other, but this one has joined");
  expect_contains(problem([](Plan& p) { p.stages[0].operators = {0, 1}; }), "operator \"b\" is in no stage");
  expect_contains(problem([](Plan& p) { p.stages[1].operators = {0, 2, 3}; }), "operator \"b\" is in stage 0 and in stage 1");
  expect_contains(problem([](Plan& p) {
                    p.stages[0].operators = {0, 1, 3};
                    p.stages[1].operators = {2};
                  }),
                  "the cut is not convex: \"c\" in stage 0 uses \"b\" in stage 1, which is later");
  expect_contains(problem([](Plan& p) { p.stages[1].operators = {3}; }), "\"c\" in stage 1 uses \"mask\", which does not depend on batch data");
  expect_contains(problem([](Plan&) {}, 2), "replicas sum up to 3, but there are 2 devices");
  expect_contains(problem([](Plan& p) {
                    p.batch = int64_t{1} << 40;
                    p.stages[0].replicas = p.stages[1].replicas = std::numeric_limits<int>::max();
                  }),
                  "replicas sum up to 4294967294, but there are 3 devices");
  expect_contains(problem([](Plan& p) { p.stages[0].replicas = 0; }), "stage 0: replicas must be at least 1, got 0");
  expect_contains(problem([](Plan& p) { p.micro_batches = 9; }), "a batch of 8 rows cannot be divided into 9 micro-batches");
  expect_contains(problem([](Plan& p) { p.micro_batches = 8; }), "stage 0: 2 replicas cannot share micro-batches of 1 rows");
  expect_contains(problem([](Plan& p) { p.stages[1].operators = {3, 7}; }), "stage 1 has operator 7, which does not exist");
  expect_contains(problem([](Plan& p) {
                    p.stages[0].operators = {0, 1, 2, 3};
                    p.stages[1].operators = {0};
                  }),
                  "stage 1 has no operator that uses batch data");
}

TEST(Json, OfPlansGoesBothWays) {
  const Profile profile = joined();
  Plan plan = two_stages();
  plan.stages[0].recompute = Recompute::selective;
  plan.stages[0].segments = {1, 2};
  const Plan figured = predicted(plan, profile, {.devices = 3});
  const Plan read = plan_from_json(to_json(figured, profile), profile, 3);
  EXPECT_EQ(to_json(predicted(read, profile, {.devices = 3}), profile), to_json(figured, profile));
  EXPECT_EQ(read.stages[0].segments, plan.stages[0].segments);
  expect_contains(to_json(figured, profile), "\"mask .. b\"");
}

/// Schedules follow from times, so these must not change by a bit.
TEST(Json, OfPlansKeepsTheTimesOfStages) {
  const Profile profile = joined();
  const Plan figured = predicted(two_stages(), profile, {.devices = 3, .between_stages = {1.0 / 3, 7}});
  EXPECT_EQ(pass_times(plan_from_json(to_json(figured, profile), profile, 3)), pass_times(figured));
  // Plans by hand have no times, and those of earlier versions others.
  nlohmann::json json = nlohmann::json::parse(to_json(figured, profile));
  json["stages"][0].erase("predicted");
  json["stages"][1]["predicted"] = {{"forward_ms", 1}, {"backward_ms", 2}, {"all_reduce_ms", 0}, {"memory_bytes", 4}};
  EXPECT_EQ(pass_times(plan_from_json(json.dump(), profile, 3)), pass_times(two_stages()));
}

TEST(Json, OfAnEditedPlanIsRefusedByName) {
  const Profile profile = joined();
  const nlohmann::json good = nlohmann::json::parse(to_json(predicted(two_stages(), profile, {.devices = 3}), profile));
  const auto refused = [&](const std::function<void(nlohmann::json&)>& edit) {
    nlohmann::json json = good;
    edit(json);
    const std::string text = json.dump();
    EXPECT_THROW(plan_from_json(text, profile, 3), Error) << text;
    return message_of([&] { plan_from_json(text, profile, 3); });
  };
  EXPECT_NO_THROW(plan_from_json(good.dump(), profile, 3));
  expect_contains(refused([](auto& j) { j["version"] = 2, j["stage"] = 0; }), "plan.version is 2, but only version 1 is supported");
  nlohmann::json without_version = good;
  EXPECT_EQ(without_version.erase("version"), 1U);
  EXPECT_NO_THROW(plan_from_json(without_version.dump(), profile, 3));
  expect_contains(refused([](auto& j) { j["hash"] = "x"; }), "the plan is for a model with hash x");
  expect_contains(refused([](auto& j) {
                    j["hash"] = "x";
                    j["stages"][0]["operators"] = {"unknown"};
                  }),
                  "the plan is for a model with hash x");
  expect_contains(refused([](auto& j) { j.erase("batch"); }), "plan.batch is missing");
  expect_contains(refused([](auto& j) { j["micro_batches"] = "two"; }), "plan.micro_batches has the wrong type: \"two\"");
  expect_contains(refused([](auto& j) { j["microbatches"] = 2; }), "plan.microbatches is not a known field");
  expect_contains(refused([](auto& j) { j["schedule"] = "zb"; }), "plan.schedule is \"zb\", must be one of gpipe, 1f1b, zb-h1");
  expect_contains(refused([](auto& j) { j["schedule"] = "zb-v", j["stages"].push_back(j["stages"][1]); }),
                  "the schedule zb-v has 2 stages on each device, but the plan has 3 stages");
  expect_contains(refused([](auto& j) { j["schedule"] = "zb-v"; }),
                  "stages 0 and 1 are on the same device of the schedule zb-v, but have 2 and 1 replicas");
  expect_contains(refused([](auto& j) { j["stages"][1]["recompute"] = "some"; }), "plan.stages[1].recompute is \"some\"");
  expect_contains(refused([](auto& j) { j["stages"][1]["operators"] = {"mask", "d"}; }), "plan.stages[1].operators: there is no operator \"d\"");
  expect_contains(refused([](auto& j) { j["stages"][0]["operators"] = {"b .. a"}; }), "\"b .. a\" ends before it begins");
  expect_contains(refused([](auto& j) { j["stages"][0]["operators"] = {"mask", "a"}; }), "operator \"b\" is in no stage");
  expect_contains(refused([](auto& j) { j["stages"][1]["replicas"] = 3; }), "replicas sum up to 5, but there are 3 devices");
  expect_contains(refused([](auto& j) { j["stages"][0]["predicted"].erase("transfer_s"); }), "plan.stages[0].predicted.transfer_s is missing");
  expect_contains(refused([](auto& j) { j["stages"][0]["predicted"].erase("weights_s"); }), "plan.stages[0].predicted.weights_s is missing");
  expect_contains(refused([](auto& j) { j["stages"][0]["predicted"]["weight_s"] = 1; }), "plan.stages[0].predicted.weight_s is not a known field");
  expect_contains(refused([](auto& j) { j["stages"][0]["predicted"] = 3; }), "plan.stages[0].predicted is not an object");
  expect_contains(refused([](auto& j) { j["predicted"] = 3; }), "plan.predicted is not an object");
  expect_contains(refused([](auto& j) { j["stages"][1]["predicted"]["forward_s"] = -1; }),
                  "plan.stages[1].predicted.forward_s must be at least 0, got -1");
  expect_contains(refused([](auto& j) { j["stages"][1]["predicted"]["weights_s"] = 1e3; }),
                  "plan.stages[1].predicted.weights_s is 1000, but it is a part of backward_s, which is");
  expect_contains(message_of([&] { plan_from_json("{", profile, 3); }), "the plan is not JSON");
}

TEST(Json, OfProfilesGoesBothWaysAndNamesFields) {
  Profile profile = joined();
  profile.outputs = {1, -1};
  EXPECT_EQ(profile_from_json(to_json(profile)), profile);
  const Profile gpt = transformer_profile(2, 64, 4, 16, 100, {});
  EXPECT_EQ(profile_from_json(to_json(gpt)), gpt);
  const auto refused = [&](const std::function<void(nlohmann::json&)>& edit) {
    nlohmann::json json = nlohmann::json::parse(to_json(profile));
    edit(json);
    EXPECT_THROW(profile_from_json(json.dump()), Error);
    return message_of([&] { profile_from_json(json.dump()); });
  };
  expect_contains(refused([](auto& j) { j["version"] = 3, j["operator"] = 0; }), "profile.version is 3, but only version 2 is supported");
  expect_contains(refused([](auto& j) { j["operators"][1].erase("forward_s"); }), "profile.operators[1].forward_s is missing");
  expect_contains(refused([](auto& j) { j["operators"][1]["forward_s"] = {1}; }), "profile.operators[1].forward_s must be two numbers");
  expect_contains(refused([](auto& j) { j["operators"][1]["inputs"] = {3}; }), "operators[1] \"a\": inputs has 3");
  expect_contains(refused([](auto& j) { j["operators"][1]["parameters"] = {2}; }), "operators[1] \"a\": parameters has 2");
  expect_contains(refused([](auto& j) { j["outputs"] = {4}; }), "outputs has 4, which does not exist");
  expect_contains(refused([](auto& j) { j.erase("outputs"); }), "profile.outputs is missing");
  expect_contains(refused([](auto& j) { j["operators"][1]["name"] = "b"; }), "two operators are called \"b\"");
  expect_contains(refused([](auto& j) { j["operators"][2]["backward_s"] = {0, -1}; }), "operators[2] \"b\": backward must be finite and at least 0");
  expect_contains(refused([](auto& j) { j["parameters"][1]["bytes"] = "many"; }), "profile.parameters[1].bytes has the wrong type");
}

TEST(Analytic, ProfilesHaveTheSizesOfTheirModels) {
  const auto bytes = [](const Profile& profile) {
    double sum = 0;
    for (const ProfiledParameter& parameter : profile.parameters) sum += parameter.bytes;
    return sum;
  };
  const Profile mlp = mlp_profile(10, 3, 4, 2, {1e3, 1e30});
  EXPECT_EQ(bytes(mlp), 4 * (4 * 10 + 10 + 10 * 10 + 10 + 10 * 2 + 2));
  EXPECT_EQ(mlp.operators.size(), 5U);
  EXPECT_NEAR(mlp.operators[2].forward.of(7), 2 * 7 * 100 / 1e3, 1e-12);
  EXPECT_NEAR(mlp.operators[2].backward.of(7), 2 * mlp.operators[2].forward.of(7), 1e-12);
  EXPECT_EQ(mlp.operators[2].output_bytes.of(7), 7 * 10 * 4);
  // GPT-2 small: 124.4 million parameters, with a tied head.
  const Profile gpt = transformer_profile(12, 768, 12, 1024, 50257, {1e3, 1e30});
  EXPECT_EQ(bytes(gpt) / 4, 124439808);
  double flops = 0;
  for (const ProfiledOperator& op : gpt.operators) flops += 1e3 * op.forward.per_row;
  EXPECT_NEAR(flops, 1024.0 * 2 * (12 * 12 * 768.0 * 768 + 50257 * 768.0) + 12 * 4 * 1024.0 * 1024 * 768, 1e-9 * flops);
  EXPECT_NO_THROW(gpt.validate());
  EXPECT_THROW(transformer_profile(1, 10, 3, 4, 5, {}), ContractError);
  EXPECT_THROW(mlp_profile(10, 3, 4, 2, {0, 1}), ContractError);
  EXPECT_NE(mlp.hash, mlp_profile(10, 3, 4, 3, {1e3, 1e30}).hash);
}

}  // namespace stage_plan_test
}  // namespace tw::pipeline

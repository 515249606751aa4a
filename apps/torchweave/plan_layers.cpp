// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>
#include <tw/planning/level_recommendation.hpp>

namespace tw::tool {
namespace {

using layer_parallel::Candidates;
using layer_parallel::LevelChoice;

constexpr const char* how_predicted =
    "Predicted by a simulation in which each rank waits for the messages that it needs. Layers cost the same, and a backward step costs two "
    "forward\n"
    "steps. The convergence of the iterations is not predicted: it depends on how similar neighbouring layers are. See docs/layer_parallel.md.";

struct LayersArguments {
  int64_t layers = 0;
  int ranks = 0;
  std::optional<double> step_ms;
  double message_us = 0;
  std::vector<int64_t> coarsening;
};

std::string coarsening_text(const layer_parallel::PerLevel<int64_t>& coarsening) { return joined(coarsening.values(), ","); }

std::string iterations_text(const Candidates& candidates) {
  return concat(candidates.forward_iterations, " forward and ", candidates.backward_iterations, " backward");
}

std::string levels_text(const LevelChoice& choice) {
  return concat(choice.plan.levels(), " levels, c = ", coarsening_text(choice.coarsening), ", ", choice.relaxations == 0 ? "F" : "FCF",
                "-relaxation");
}

// The choice as LayerParallelOptions in C++.
std::string options_text(const LevelChoice& choice, const Candidates& candidates) {
  const auto direction = [&](int iterations) {
    return concat("{.iterations = ", iterations, ", .cycle = {.relaxations = ", choice.relaxations, "}}");
  };
  const std::string coarsening = coarsening_text(choice.coarsening);
  return concat("{.levels = ", choice.plan.levels(), ", .coarsening = ", choice.coarsening.values().size() == 1 ? coarsening : "{" + coarsening + "}",
                ", .forward = ", direction(candidates.forward_iterations), ", .backward = ", direction(candidates.backward_iterations), "}");
}

std::vector<int> rows_up_to(int ranks) {
  std::vector<int> rows;
  for (int row = 2; row < ranks; row *= 2) rows.push_back(row);
  rows.push_back(ranks);
  return rows;
}

// The fastest number of levels for each number of ranks and each c.
void print_table(const LayersArguments& arguments, Candidates candidates) {
  constexpr int width = 8;
  candidates.relaxations = {0};
  const auto coarsenings = candidates.coarsenings;
  std::cout << "speed-up by ranks and c, " << iterations_text(candidates) << ", F-relaxation, at the best number of levels\n"
            << std::setw(width) << "ranks";
  for (const auto& coarsening : coarsenings) std::cout << std::setw(width) << "c=" + coarsening_text(coarsening);
  std::cout << '\n';
  for (const int ranks : rows_up_to(arguments.ranks)) {
    std::cout << std::setw(width) << ranks;
    for (const auto& coarsening : coarsenings) {
      candidates.coarsenings = {coarsening};
      const auto all = layer_parallel::level_choices(arguments.layers, ranks, candidates);
      const auto best = std::find_if(all.begin(), all.end(), [](const LevelChoice& choice) { return !choice.is_serial(); });
      if (best == all.end()) {
        std::cout << std::setw(width) << '-';
      } else {
        std::cout << std::setw(width) << fixed_text(best->prediction.speed_up, 2);
      }
    }
    std::cout << '\n';
  }
  std::cout << '\n';
}

void print_choice(const char* title, const LayersArguments& arguments, const LevelChoice& choice, const Candidates& candidates) {
  std::cout << std::left << std::setw(13) << title << std::right;
  if (choice.is_serial()) {
    std::cout << "one rank, serial: nothing that was tried is faster\n";
    return;
  }
  std::cout << levels_text(choice) << ", " << iterations_text(candidates) << ": speed-up " << fixed_text(choice.prediction.speed_up, 2);
  if (arguments.step_ms)
    std::cout << ", " << fixed_text(choice.prediction.parallel, 2) << " ms instead of " << fixed_text(choice.prediction.serial, 2);
  std::cout << '\n' << std::setw(13) << "" << options_text(choice, candidates) << '\n';
}

// A pipeline of P ranks with m micro-batches is m P / (m + P - 1) times as fast as one rank.
void print_others(int ranks, double speed_up) {
  if (ranks == 1) return;
  std::cout << "\nIf the batch can be split, split it: data parallelism is up to " << ranks << " times as fast on " << ranks
            << " ranks, and exact; a pipeline";
  if (speed_up < ranks) {
    const int64_t micro_batches = std::max<int64_t>(2, static_cast<int64_t>(std::floor(speed_up * (ranks - 1) / (ranks - speed_up))) + 1);
    std::cout << " with\n" << micro_batches << " or more micro-batches beats the recommendation too";
  }
  std::cout << ". Layers in parallel are for deep networks whose batch cannot be split.\n";
}

/// @throws CLI::ValidationError
void check(const LayersArguments& arguments) {
  if (arguments.ranks <= arguments.layers) return;
  throw CLI::ValidationError("--ranks", concat("must be at most the number of layers, ", arguments.layers, "; got ", arguments.ranks));
}

void plan_layers(const LayersArguments& arguments) {
  Candidates accurate;
  if (arguments.step_ms) accurate.costs = {.step = *arguments.step_ms, .message = 1e-3 * arguments.message_us};
  if (!arguments.coarsening.empty()) accurate.coarsenings = {layer_parallel::PerLevel<int64_t>(arguments.coarsening)};
  Candidates fast = accurate;
  fast.forward_iterations = 1;

  const LevelChoice best = recommend(arguments.layers, arguments.ranks, accurate);
  std::cout << best.plan.describe() << '\n';
  print_table(arguments, accurate);
  print_table(arguments, fast);
  print_choice("recommended", arguments, best, accurate);
  print_choice("less exact", arguments, recommend(arguments.layers, arguments.ranks, fast), fast);
  print_others(arguments.ranks, best.prediction.speed_up);
}

}  // namespace

void add_plan_layers(CLI::App& plan, Session& session) {
  CLI::App* command = plan.add_subcommand("layers", "Predict the speed-up of layers in parallel by multigrid in time, and recommend its levels");
  auto arguments = std::make_shared<LayersArguments>();
  command->add_option("--layers", arguments->layers, "Number of layers")->required()->check(CLI::Range(2, 100000));
  command->add_option("--ranks", arguments->ranks, "Number of ranks, at most the number of layers")->required()->check(CLI::Range(1, 4096));
  CLI::Option* step =
      command->add_option("--step-ms", arguments->step_ms, "Time of a layer's forward step; times are printed, too")->check(CLI::PositiveNumber);
  command->add_option("--message-us", arguments->message_us, "Time of a message with a state")->needs(step)->check(CLI::NonNegativeNumber);
  command->add_option("--coarsening", arguments->coarsening, "Only this coarsening factor c, or one per level, the finest first")
      ->check(CLI::Range(2, 100000));
  command->footer(how_predicted);
  command->callback([arguments, &session] {
    check(*arguments);
    if (session.is_first()) plan_layers(*arguments);
  });
}

}  // namespace tw::tool

// SPDX-License-Identifier: Apache-2.0
#include "report_iterations.hpp"
#include "figures_text.hpp"

#include <algorithm>
#include <ostream>
#include <tw/base/concat.hpp>
#include <tw/base/file.hpp>
#include <tw/base/number_text.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/layer_parallel/report_svg.hpp>

namespace tw::tool {
namespace {

// A summary of all checks, in one line.
std::string text_of(const std::vector<layer_parallel::Detection>& history) {
  const auto fired = std::ranges::count_if(history, &layer_parallel::Detection::fired);
  const auto worst = std::ranges::max_element(history, {}, &layer_parallel::Detection::factor);
  return concat(history.size(), " checks, ", fired, " above the bound; largest factor ", brief_text(worst->factor, 3), " in pass ", worst->pass,
                worst->where.empty() ? "" : ", ", worst->where, "; iterations at the end: forward ", history.back().then.forward, ", backward ",
                history.back().then.backward);
}

void write_picture(const TrainConfig& config, const TrainSetup& setup, const std::vector<layer_parallel::NetworkReport>& by_rank) {
  replace_file(config.run.folder() / "layers.svg",
               layer_parallel::report_svg(by_rank, setup.iterations->history(), config.layer_parallel.detector.bound));
}

}  // namespace

void report_iterations(std::ostream& out, const TrainConfig& config, TrainSetup& setup, train::Trainer& trainer, const Mesh& mesh) {
  const bool first = mesh.comm().rank() == 0;
  const auto by_rank = layer_parallel::reports_of_all_ranks(setup.layers->comm(), setup.iterations->report());
  on_all_ranks(mesh.comm(), "drawing the report of the last passes", [&] {
    if (first) write_picture(config, setup, by_rank);
  });
  if (first) out << "  last training pass on rank 0; for all ranks see " << (config.run.folder() / "layers.svg").string() << '\n' << by_rank.front();
  if (first && !setup.iterations->history().empty()) out << "  detector       " << text_of(setup.iterations->history()) << '\n';
  const layer_parallel::Iterations iterations = setup.layers->iterations();
  const Dataset* const data = setup.data.validation_set.get();
  if (iterations.forward == 0 || config.layer_parallel.levels == 1 || data == nullptr || data->size() == 0) return;
  const train::Figures approximate = trainer.evaluate(*data);
  setup.layers->set_iterations({0, 0});
  const train::Figures exact = trainer.evaluate(*data);
  setup.layers->set_iterations(iterations);
  if (first)
    out << "  inference      " << figures_text(approximate) << "; serial: " << figures_text(exact) << ", on the validation set\n" << std::flush;
}

}  // namespace tw::tool

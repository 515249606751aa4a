// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "written_output.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <iostream>
#include <memory>
#include <numeric>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/number_text.hpp>
#include <tw/state/checkpoint.hpp>
#include <tw/state/export.hpp>

namespace tw::tool {
namespace {

struct CheckpointArguments {
  std::string directory;
  std::string file;
  std::string format;
};

// "96.0 MiB"
std::string bytes_text(int64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fixed_text(value, unit == 0 ? 0 : 1) + ' ' + units[unit];
}

// Pads every column but the last to its widest cell.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) std::cout << std::left << std::setw(static_cast<int>(widths[i]) + 2) << row[i];
    std::cout << row.back() << '\n';
  }
}

void show(const CheckpointArguments& arguments) {
  const Checkpoint checkpoint = Checkpoint::open(arguments.directory);
  const CheckpointIndex& index = checkpoint.index();
  const int64_t bytes =
      std::accumulate(index.files.begin(), index.files.end(), int64_t{0}, [](int64_t sum, const StoredFile& file) { return sum + file.bytes; });
  print_table({{"checkpoint", checkpoint.directory().string()},
               {"step", std::to_string(index.step)},
               {"saved by", concat(index.files.size(), index.files.size() == 1 ? " rank" : " ranks")},
               {"size", bytes_text(bytes)},
               {"metadata", index.metadata}});
  std::vector<std::vector<std::string>> rows{{"", ""}, {"tensor", "dtype", "shape", "kind", "on reshard", "pieces", "size", "also called"}};
  for (const StoredTensor& tensor : index.tensors) {
    int64_t elements = 0;
    for (const StoredPiece& piece : tensor.pieces) elements += piece.box.numel();
    std::vector<std::string> also_called = tensor.aliases;
    if (!tensor.layers.empty()) also_called.push_back(tensor.layers);
    rows.push_back({tensor.spec.name, dtype_name(tensor.spec.dtype), shape_text(tensor.spec.shape), name_of(tensor.kind), name_of(tensor.on_reshard),
                    std::to_string(tensor.pieces.size()), bytes_text(elements * static_cast<int64_t>(c10::elementSize(tensor.spec.dtype))),
                    joined(also_called)});
  }
  print_table(rows);
}

void verify(const CheckpointArguments& arguments) {
  const Checkpoint checkpoint = Checkpoint::open(arguments.directory);
  const std::vector<std::string> problems = checkpoint.verify();
  if (!problems.empty()) throw Error(concat(checkpoint.directory().string(), " is damaged:\n  ", joined(problems, "\n  ")));
  std::cout << checkpoint.directory().string() << ": step " << checkpoint.index().step << ", " << checkpoint.index().files.size()
            << (checkpoint.index().files.size() == 1 ? " file" : " files") << ", all checksums match\n";
}

void export_model(const CheckpointArguments& arguments) {
  const Checkpoint checkpoint = Checkpoint::open(arguments.directory);
  if (arguments.format == "libtorch") {
    export_for_libtorch(checkpoint, arguments.file);
  } else {
    export_safetensors(checkpoint, arguments.file);
  }
  std::cout << arguments.file << ": parameters and buffers of step " << checkpoint.index().step << '\n';
}

}  // namespace

void add_checkpoint(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("checkpoint", "Show or verify the checkpoints of a run, or export a model");
  command->require_subcommand(1);
  auto arguments = std::make_shared<CheckpointArguments>();
  const auto add = [&](const char* name, const char* description, void (*run)(const CheckpointArguments&)) {
    CLI::App* added = command->add_subcommand(name, description);
    added->add_option("DIR", arguments->directory, "Folder of a run's checkpoints, of which the newest is used, or of one checkpoint")->required();
    added->callback([arguments, run, &session] {
      if (!session.is_first()) return;
      run(*arguments);
      expect_output_written();
    });
    return added;
  };
  add("show", "Print the step, metadata and tensors of a checkpoint", show);
  add("verify", "Read all files of a checkpoint and compare checksums; if any is damaged, report it with exit code 1", verify);
  CLI::App* exporting = add("export", "Write the parameters and buffers of a checkpoint to one file", export_model);
  exporting->add_option("FILE", arguments->file, "The file to write")->required();
  exporting
      ->add_option("--format", arguments->format,
                   "safetensors: for Python; libtorch: for torch::load(module, FILE) into the same module, without Torchweave")
      ->required()
      ->check(CLI::IsMember({"safetensors", "libtorch"}));
}

}  // namespace tw::tool

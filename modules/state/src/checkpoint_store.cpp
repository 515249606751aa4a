// SPDX-License-Identifier: Apache-2.0
#include <tw/state/checkpoint_store.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/state/checkpoint.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/safetensors.hpp>
#include <unordered_set>
#include <utility>

#include "boxes.hpp"
#include "records.hpp"
#include "save_transfer.hpp"
#include "step_directory.hpp"

namespace tw {
namespace {

std::vector<ShardSpec> specs_of(const std::vector<NamedShard>& shards) {
  std::vector<ShardSpec> specs;
  for (const NamedShard& shard : shards) {
    TW_EXPECTS(shard.offsets.size() == shard.global_shape.size(), shard.name, " has ", shard.offsets.size(),
               " offsets, but needs one per dimension of its shape ", shape_text(shard.global_shape));
    specs.push_back({shard.spec(), shard.aliases, {shard.offsets, shard.tensor.sizes().vec()}, shard.kind, shard.on_reshard, shard.layers});
  }
  return specs;
}

// Error messages of `local`, by rank; equal on all ranks. Collective.
std::vector<std::string> problems_of(const Communicator& comm, const std::function<void()>& local) {
  std::vector<std::string> problems;
  for (RankFailure& failure : failures_on_all_ranks(comm, local)) problems.push_back(std::move(failure.message));
  return problems;
}

std::string indented(const std::vector<std::string>& lines) { return "\n  " + joined(lines, "\n  "); }

/// What this rank writes; valid as long as the shards keep their names, shapes and placement.
struct Layout {
  std::vector<ShardSpec> mine;
  std::vector<StoredTensor> tensors;  // on rank 0 only
  std::vector<SavePiece> pieces;      // this rank's
  SafetensorsPlan file;               // of the pieces
};

}  // namespace

void visit(CheckpointOptions& options, OptionVisitor& visitor) {
  visitor.field("keep", options.keep, at_least(1, any_count), {.meaning = "number of newest checkpoints that are kept"});
  visitor.field("background", options.background, {.meaning = "write while training continues"});
}

void CheckpointOptions::validate() const { expect_none(out_of_bounds(*this)); }

class CheckpointStore::Implementation {
 public:
  Implementation(const Communicator& comm, std::filesystem::path directory, const CheckpointOptions& options)
      : comm_(comm.dup()), saving_(comm.dup()), directory_(std::move(directory)), options_(options), writer_(std::make_shared<Writer>()) {
    expect_same_on_all_ranks(comm_, "the checkpoint options", value_lines(options));
    on_all_ranks(comm_, concat("opening the checkpoints in ", directory_.string()), [&] {
      options.validate();
      directory_ = absolute_path(directory_);
      if (comm_.rank() != 0) return;
      std::filesystem::create_directories(directory_);
      remove_partials(directory_);
    });
  }

  ~Implementation() { writer_->stop(); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  const std::filesystem::path& directory() const noexcept { return directory_; }

  void save(int64_t step, const std::vector<NamedShard>& shards, const std::string& metadata) {
    wait();
    update_layout(step, shards);
    allocate_staging(shards);
    SaveJob job;
    job.arrive = copy(shards);
    job.directory = directory_;
    job.keep = options_.keep;
    job.data = memory();
    job.bytes = layout_.file.file_bytes;
    job.index.step = step;
    if (comm_.rank() == 0) {
      job.index.metadata = metadata;
      job.index.tensors = layout_.tensors;
    }
    result_ = std::make_shared<SaveResult>();
    work_ = mpi::start(saving_, {.collective = Collective::allgather, .count = static_cast<int64_t>(sizeof(Verdict))},
                       std::make_unique<SaveTransfer>(saving_, writer_, std::move(job), result_));
    if (!options_.background) wait();
  }

  void poll() {
    if (result_ && work_.test()) finish();
  }

  // Some ranks may already have thrown a failure in poll(). All ranks throw it here, so that they continue alike.
  void wait() {
    // First wait for this rank's disk, which may be arbitrarily slow; also after a failed save, whose partial files the writer removes. The wait for
    // other ranks begins only then, because it is watched for stalls.
    while (!writer_->wait_for(std::chrono::milliseconds(1))) progress(comm_);
    work_.wait();
    const auto failures = problems_of(comm_, [&] { finish(); });
    if (!failures.empty()) throw Error(failures[0]);  // it names the ranks whose disks failed; the ranks in `failures` only report it
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> found = on_all_ranks(comm_, concat("looking for checkpoints in ", directory_.string()),
                                              [&] { return comm_.rank() == 0 ? list_steps(directory_) : std::vector<int64_t>(); });
    const std::string bytes(reinterpret_cast<const char*>(found.data()), found.size() * sizeof(int64_t));
    const std::string all = broadcast_string(comm_, bytes, Rank(0));
    found.resize(all.size() / sizeof(int64_t));
    if (!all.empty()) std::memcpy(found.data(), all.data(), all.size());
    return found;
  }

  std::string load(int64_t step, const std::vector<NamedShard>& shards) const {
    const std::vector<int64_t> complete = steps();
    CheckpointIndex index;
    if (const auto problems = examine(step, index); !problems.empty()) {
      throw Error(concat("the checkpoint of step ", step, " cannot be loaded:", indented(problems), "\n  ", offer(complete, step)));
    }
    const std::string loading = concat("loading step ", step);
    const auto mine = on_all_ranks(comm_, loading, [&] { return specs_of(shards); });
    const auto by_rank = gather_objects(comm_, mine, Rank(0));
    const auto stored_ranks = static_cast<int64_t>(index.files.size());
    std::vector<std::string> problems;
    std::vector<std::vector<ShardReads>> plan;
    on_all_ranks(comm_, loading, [&] {
      if (comm_.rank() != 0) return;
      problems = load_problems(index.tensors, stored_ranks, by_rank);
      if (problems.empty()) plan = plan_load(index.tensors, stored_ranks, by_rank);
    });
    problems = broadcast_object(comm_, problems, Rank(0));
    if (!problems.empty())
      throw Error(
          concat("the checkpoint of step ", step, " in ", directory_.string(), " does not fit the tensors to be loaded:", indented(problems)));
    const auto reads = scatter_objects(comm_, plan, Rank(0));
    const auto failures = problems_of(comm_, [&] { CheckpointFiles(step_directory(directory_, step)).fill(shards, reads); });
    if (!failures.empty()) {
      throw Error(concat("the checkpoint of step ", step, " cannot be loaded:", indented(failures), "\n  ", offer(complete, step)));
    }
    return index.metadata;
  }

  std::optional<int64_t> newest_valid() const {
    std::vector<int64_t> complete = steps();
    for (auto step = complete.rbegin(); step != complete.rend(); ++step) {
      CheckpointIndex index;
      const auto problems = examine(*step, index);
      if (problems.empty()) return *step;
      if (comm_.rank() == 0) log_warning("the checkpoint of step ", *step, " is damaged and is skipped:", indented(problems));
    }
    return std::nullopt;
  }

  CheckpointIndex index(int64_t step) const { return broadcast_object(comm_, head_of(step), Rank(0)); }

  std::vector<std::string> names(int64_t step) const {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : head_of(step).tensors) names.push_back(tensor.spec.name);
    return broadcast_object(comm_, names, Rank(0));
  }

  std::string metadata(int64_t step) const { return head_of(step).metadata; }

  void remove_steps(int64_t begin, int64_t end) {
    wait();
    on_all_ranks(comm_, "removing old checkpoints", [&] {
      if (comm_.rank() != 0) return;
      for (const int64_t step : list_steps(directory_)) {
        if (step >= begin && step < end) remove_step(directory_, step);
      }
    });
  }

  const at::Tensor& staging() const noexcept { return staging_; }

 private:
  const char* memory() const { return static_cast<const char*>(staging_.const_data_ptr()); }

  void finish() {
    const std::shared_ptr<SaveResult> result = std::exchange(result_, nullptr);
    if (result && !result->failure.empty()) throw Error("a checkpoint was not saved: " + result->failure);
  }

  // Plans again if any rank's shards differ from last time. Collective.
  void update_layout(int64_t step, const std::vector<NamedShard>& shards) {
    Layout layout;
    bool changed = !planned_;
    std::exception_ptr failure;  // reported to all ranks below; if nothing changed, one small message must suffice
    try {
      TW_EXPECTS(step >= 0, "the step must be at least 0, got ", step);
      layout.mine = specs_of(shards);
      changed = changed || layout.mine != layout_.mine;
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    const bool same = !failure && !changed;
    // Ranks with changes send distinct texts, so all_agree() on "same" holds only if every rank is unchanged. The step is compared too.
    if (all_agree(comm_, concat("step ", step, same ? "" : concat(" changed on ", comm_.rank()))) && same) return;

    planned_ = false;
    expect_same_on_all_ranks(comm_, "the step to be saved", {concat("step ", step)});
    const std::string saving = concat("saving step ", step);
    const auto by_rank = gather_objects(comm_, layout.mine, Rank(0));
    SavePlan plan;
    on_all_ranks(comm_, saving, [&] {
      if (failure) std::rethrow_exception(failure);
      if (comm_.rank() == 0) plan = plan_save(by_rank);
    });
    layout.tensors = std::move(plan.tensors);
    layout.pieces = scatter_objects(comm_, plan.by_rank, Rank(0));
    on_all_ranks(comm_, saving, [&] {
      std::vector<TensorSpec> pieces;
      for (const SavePiece& piece : layout.pieces) {
        pieces.push_back({piece.key, piece.box.lengths, layout.mine[static_cast<size_t>(piece.shard)].global.dtype});
      }
      layout.file = plan_safetensors(pieces);
    });
    layout_ = std::move(layout);
    planned_ = true;
  }

  // Pinned if a shard lies on a device, so that the device copies asynchronously.
  void allocate_staging(const std::vector<NamedShard>& shards) {
    constexpr int64_t huge_page_bytes = int64_t{2} << 20;  // from this size on, FlatBuffer aligns to pages
    const int64_t needed = std::max(layout_.file.file_bytes + direct_alignment, huge_page_bytes);
    const bool pinned = std::any_of(shards.begin(), shards.end(), [](const NamedShard& shard) { return is_on_accelerator(shard.tensor); });
    if (!staging_.defined() || staging_.numel() < needed || pinned != pinned_) staging_ = pinned ? pinned_memory(needed) : host_memory(needed);
    pinned_ = pinned;
    std::memcpy(staging_.data_ptr(), layout_.file.header.data(), layout_.file.header.size());
  }
  static at::Tensor host_memory(int64_t bytes) { return FlatBuffer(bytes, c10::ScalarType::Byte).storage(); }
  static at::Tensor pinned_memory(int64_t bytes) {
    const at::Tensor memory = at::empty({bytes + direct_alignment}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory.const_data_ptr()) % direct_alignment);
    return memory.narrow(0, (direct_alignment - past) % direct_alignment, bytes);
  }

  // Starts copying. @return a function that waits for completion
  std::function<void()> copy(const std::vector<NamedShard>& shards) {
    const at::NoGradGuard no_grad;
    auto* const memory = static_cast<char*>(staging_.data_ptr());
    std::unordered_set<c10::Device> devices;
    for (size_t i = 0; i < layout_.pieces.size(); ++i) {
      const SavePiece& piece = layout_.pieces[i];
      const SafetensorsEntry& place = layout_.file.entries[i];
      const NamedShard& shard = shards[static_cast<size_t>(piece.shard)];
      at::Tensor part = shard.tensor.detach();
      const std::vector<int64_t> begin = relative(piece.box.offsets, {shard.offsets, {}});
      for (size_t dimension = 0; dimension < begin.size(); ++dimension) {
        part = part.narrow(static_cast<int64_t>(dimension), begin[dimension], piece.box.lengths[dimension]);
      }
      if (part.is_contiguous() && part.is_cpu() && !part.is_conj() && !part.is_neg()) {
        if (place.bytes > 0) std::memcpy(memory + place.offset, part.const_data_ptr(), static_cast<size_t>(place.bytes));
      } else {
        if (is_on_accelerator(part)) devices.insert(part.device());
        at::from_blob(memory + place.offset, part.sizes(), at::TensorOptions().dtype(part.scalar_type())).copy_(part, /*non_blocking=*/true);
      }
    }
    return arrival_from(devices);
  }

  static std::function<void()> arrival_from(const std::unordered_set<c10::Device>& devices) {
    const auto copied = std::make_shared<std::vector<c10::Event>>();
    for (const c10::Device device : devices) {
      copied->emplace_back(device.type()).record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    }
    return [copied] {
      for (const c10::Event& event : *copied) event.synchronize();
    };
  }

  // Reads the index of `step`; its tensors on rank 0 only, where everything is planned. @return its errors, equal on all ranks. Collective.
  std::vector<std::string> read_index(int64_t step, CheckpointIndex& index) const {
    auto problems = problems_of(comm_, [&] {
      const std::filesystem::path path = step_directory(directory_, step) / index_name;
      if (comm_.rank() == 0) index = parse_index(read_file(path, max_index_bytes), path);
    });
    if (!problems.empty()) return problems;
    std::vector<StoredTensor> tensors = std::move(index.tensors);
    index.tensors.clear();
    index = broadcast_object(comm_, index, Rank(0));
    index.tensors = std::move(tensors);
    return {};
  }

  CheckpointIndex head_of(int64_t step) const {
    CheckpointIndex index;
    if (const auto problems = read_index(step, index); !problems.empty()) throw Error(problems[0]);
    return index;
  }

  // Reads the index of `step` and checks its files, each on one rank. @return all errors, equal on all ranks. Collective.
  std::vector<std::string> examine(int64_t step, CheckpointIndex& index) const {
    const std::filesystem::path step_path = step_directory(directory_, step);
    if (auto problems = read_index(step, index); !problems.empty()) return problems;
    return problems_of(comm_, [&] {
      std::string mine;
      for (size_t file = static_cast<size_t>(int{comm_.rank()}); file < index.files.size(); file += static_cast<size_t>(comm_.size())) {
        const std::string problem = damage(step_path, static_cast<int64_t>(file), index.files[file]);
        if (!problem.empty()) mine += (mine.empty() ? "" : "\n  ") + problem;
      }
      if (!mine.empty()) throw Error(mine);
    });
  }

  static std::string offer(const std::vector<int64_t>& complete, int64_t step) {
    const auto next = std::lower_bound(complete.begin(), complete.end(), step);
    if (next != complete.begin()) return concat("the previous checkpoint is step ", *(next - 1));
    return "there is no previous checkpoint";
  }

  Communicator comm_;
  Communicator saving_;  // for saves in flight, whose messages are thus separate from those of steps() and load()
  std::filesystem::path directory_;
  CheckpointOptions options_;
  std::shared_ptr<Writer> writer_;
  bool planned_ = false;
  Layout layout_;
  at::Tensor staging_;  // this rank's file
  bool pinned_ = false;
  std::shared_ptr<SaveResult> result_;  // of the save in flight; null if none
  Work work_;
};

CheckpointStore::CheckpointStore(const Communicator& comm, std::filesystem::path directory, const CheckpointOptions& options)
    : implementation_(std::make_unique<Implementation>(comm, std::move(directory), options)) {}

CheckpointStore::~CheckpointStore() = default;

const std::filesystem::path& CheckpointStore::directory() const noexcept { return implementation_->directory(); }

void CheckpointStore::save(int64_t step, const std::vector<NamedShard>& shards, const std::string& metadata) {
  implementation_->save(step, shards, metadata);
}

void CheckpointStore::poll() { implementation_->poll(); }

void CheckpointStore::wait() { implementation_->wait(); }

std::vector<int64_t> CheckpointStore::steps() const { return implementation_->steps(); }

std::string CheckpointStore::load(int64_t step, const std::vector<NamedShard>& shards) const { return implementation_->load(step, shards); }

std::optional<int64_t> CheckpointStore::newest_valid() const { return implementation_->newest_valid(); }

CheckpointIndex CheckpointStore::index(int64_t step) const { return implementation_->index(step); }

std::vector<std::string> CheckpointStore::names(int64_t step) const { return implementation_->names(step); }

std::string CheckpointStore::metadata(int64_t step) const { return implementation_->metadata(step); }

const at::Tensor& CheckpointStore::memory() const noexcept { return implementation_->staging(); }

void CheckpointStore::remove_steps(int64_t begin, int64_t end) { implementation_->remove_steps(begin, end); }

void CheckpointStore::remove_all() { remove_steps(0, std::numeric_limits<int64_t>::max()); }

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/gradients/reducer.hpp>

#include "order_check.hpp"
#include "unit_values.hpp"

namespace tw {
namespace {

// Kept units of at most this many bytes are not watched, since watching would take measurable time. Comparing finds in-place changes instead.
constexpr int64_t small = 256 << 10;

class Gathered final : public UnitValues {
 public:
  Gathered(const Communicator& comm, std::shared_ptr<OrderCheck> orders, const ParameterSlices& slices, Reducer& reducer,
           const FullyShardedOptions& options, std::function<void(const std::string&)> give_up)
      : comm_(comm),
        slices_(slices),
        reducer_(reducer),
        options_(options),
        give_up_(std::move(give_up)),
        orders_(std::move(orders)),
        model_(orders_->add(names_of(slices))),
        kept_(kept_units()),
        order_(kept_, ahead()),
        state_(slices.units()) {
    make_memory();
  }
  ~Gathered() override { orders_->remove(model_); }
  Gathered(const Gathered&) = delete;
  Gathered& operator=(const Gathered&) = delete;

  void use(std::span<const size_t> units, const UseMoment& moment) override {
    TW_EXPECTS(orders_->difference().empty(), orders_->difference());
    for (const size_t unit : units) {
      if (order_.has(unit) && state_[unit].written) release(unit);
    }
    const UnitOrder::Moves moves = order_.use(units, moment);
    for (const size_t unit : moves.release) release(unit);
    for (const size_t unit : moves.gather) begin_gathering(unit);
    figures_.late += static_cast<int64_t>(moves.gather.size());
    for (const size_t unit : moves.ahead) begin_gathering(unit);
    for (const size_t unit : units) end_gathering(unit);
  }

  // Slices are watched from their unit's gathering until one of them is written.
  void write(size_t unit, std::span<const size_t> used) override {
    slices_.watch_slices(unit, false);
    slices_.unit(unit).slices_written();
    if (std::find(used.begin(), used.end(), unit) == used.end()) {
      if (order_.has(unit)) release(unit);
      return;
    }
    state_[unit].written = true;
    slices_.unit(unit).watch_parameters(true);
  }
  void written() override {
    for (size_t unit = 0; unit < state_.size(); ++unit) {
      state_[unit].written = true;
      slices_.unit(unit).slices_written();
      if (order_.has(unit)) release(unit);
    }
  }

  void begin_pass() override {
    for (size_t unit = 0; unit < state_.size(); ++unit) {
      if (kept_[unit]) look_for_changes(unit);
    }
  }
  void before_reduction() override { expect_same_units(orders_->begin(model_, OrderCheck::end_of_pass) - 1); }
  void end_pass() override {
    expect_unchanged();
    for (const size_t unit : order_.end_pass()) release(unit);
  }
  void restart(std::shared_ptr<OrderCheck> orders) override {
    for (size_t unit = 0; unit < state_.size(); ++unit) {
      if (slices_.unit(unit).memory().defined()) slices_.unit(unit).release();
    }
    if (orders != orders_) {
      orders_->remove(model_);
      orders_ = std::move(orders);
      model_ = orders_->add(names_of(slices_));
    }
    order_ = UnitOrder(kept_, ahead());
    state_ = std::vector<State>(slices_.units());
    pool_.clear();
    of_kept_.clear();
    changed_.clear();
    make_memory();
  }

 private:
  struct State {
    bool written = false;  // whether a slice was written since the unit was gathered
    at::Tensor pooled;     // memory from the pool for the whole unit; undefined if none is used
    at::Tensor arriving;   // the same, while the gathering is in flight
    Work gathering;
    int64_t event = 0;  // number of the gathering in `orders_`
  };

  static std::vector<std::string> names_of(const ParameterSlices& slices);
  size_t ahead() const { return static_cast<size_t>(options_.prefetch_units); }
  int64_t bytes_of(size_t unit) const { return slices_.unit(unit).bytes(); }
  std::vector<bool> kept_units() const;
  void make_memory();
  at::Tensor memory_for(size_t unit);
  void begin_gathering(size_t unit);
  void end_gathering(size_t unit);
  void release(size_t unit);
  void look_for_changes(size_t unit);
  void expect_unchanged();
  void expect_same_units(int64_t event);
  bool is_quiet(size_t unit) const { return kept_[unit] && bytes_of(unit) <= small; }

  const Communicator& comm_;
  const ParameterSlices& slices_;
  Reducer& reducer_;
  const FullyShardedOptions& options_;
  std::function<void(const std::string&)> give_up_;
  std::shared_ptr<OrderCheck> orders_;
  int64_t model_;           // its number in `orders_`
  std::vector<bool> kept_;  // by unit
  UnitOrder order_;
  std::vector<State> state_;         // by unit
  std::vector<at::Tensor> pool_;     // free memory, each block as large as the largest unit that is not kept
  std::vector<at::Tensor> of_kept_;  // by unit, memory of kept units
  std::string changed_;              // a parameter this rank found changed, or one in the same unit
};

std::vector<std::string> Gathered::names_of(const ParameterSlices& slices) {
  std::vector<std::string> names;
  for (size_t unit = 0; unit < slices.units(); ++unit) names.push_back(slices.unit(unit).parameters().front().name);
  return names;
}

std::vector<bool> Gathered::kept_units() const {
  std::vector<int64_t> bytes;
  for (size_t unit = 0; unit < slices_.units(); ++unit) bytes.push_back(bytes_of(unit));
  return tw::kept_units(bytes, ahead(), options_.resident_bytes);
}

void Gathered::make_memory() {
  const at::TensorOptions bytes = slices_.unit(0).options().dtype(at::kByte);
  constexpr int64_t alignment = 64;
  int64_t largest = 0;
  int64_t together = 0;
  std::vector<int64_t> offsets;
  for (size_t unit = 0; unit < slices_.units(); ++unit) {
    offsets.push_back(together);
    if (kept_[unit]) {
      together += divide_up(bytes_of(unit), alignment) * alignment;
    } else {
      largest = std::max(largest, bytes_of(unit));
    }
  }
  const at::Tensor of_kept = together > 0 ? shared_tensor(comm_, {together}, bytes) : at::empty({0}, bytes);
  for (size_t unit = 0; unit < slices_.units(); ++unit) {  // one tensor with its own version per unit, for audits of operations in flight
    of_kept_.push_back(kept_[unit] ? of_kept.narrow(0, offsets[unit], bytes_of(unit)).variable_data() : at::Tensor());
  }
  const auto pooled = static_cast<size_t>(std::count(kept_.begin(), kept_.end(), false));
  for (size_t i = 0; i < std::min(pooled, 1 + std::max<size_t>(ahead(), 1)); ++i) pool_.push_back(shared_tensor(comm_, {largest}, bytes));
  figures_.buffer_bytes = together + static_cast<int64_t>(pool_.size()) * largest;
}

at::Tensor Gathered::memory_for(size_t unit) {
  const ParameterUnit& of = slices_.unit(unit);
  const c10::ScalarType dtype = of.options().dtype().toScalarType();
  if (kept_[unit]) return of_kept_[unit].view(dtype);
  if (pool_.empty()) return at::empty({of.numel()}, of.options());  // an operator uses more units at once than the pool holds
  const at::Tensor& memory = state_[unit].pooled = pool_.back();
  pool_.pop_back();
  return memory.narrow(0, 0, of.bytes()).view(dtype);
}

void Gathered::begin_gathering(size_t unit) {
  State& state = state_[unit];
  state.event = orders_->begin(model_, static_cast<int64_t>(unit));
  state.arriving = memory_for(unit);
  state.written = false;
  slices_.watch_slices(unit, true);
  at::Tensor mine = slices_.share(unit);
  if (mine.scalar_type() != state.arriving.scalar_type()) {
    const at::Tensor converted = state.arriving.narrow(0, comm_.rank() * mine.numel(), mine.numel());
    mine = converted.copy_(mine);
  }
  try {
    state.gathering = iallgather(comm_, mine, state.arriving);
  } catch (const ContractError&) {  // sizes differ
    expect_same_units(state.event);
    throw;
  }
  figures_.payload_bytes += static_cast<int64_t>(mine.nbytes());
  ++figures_.gatherings;
}

// Call before values are used: units of equal size would silently mix values; others would deadlock.
void Gathered::expect_same_units(int64_t event) {
  const std::string& difference = orders_->difference_up_to(event);
  if (difference.empty()) return;
  give_up_(difference);
  for (State& each : state_) {  // ignores their errors, which are only consequences
    try {
      each.gathering.wait();
    } catch (const std::exception&) {
    }
  }
  TW_EXPECTS(false, difference);
}

void Gathered::end_gathering(size_t unit) {
  State& state = state_[unit];
  if (!state.arriving.defined()) return;
  const Stopwatch watch;
  expect_same_units(state.event);
  state.gathering.wait();
  figures_.exposed += watch.elapsed();
  slices_.unit(unit).fill(std::exchange(state.arriving, {}), !is_quiet(unit));
}

void Gathered::release(size_t unit) {
  end_gathering(unit);
  order_.forget(unit);
  look_for_changes(unit);
  slices_.unit(unit).release();
  if (state_[unit].pooled.defined()) pool_.push_back(std::exchange(state_[unit].pooled, {}));
}

// Detects in-place changes that bump no version. A changed element lies in some rank's share, and only that rank can compare it with its slice.
void Gathered::look_for_changes(size_t unit) {
  const ParameterUnit& of = slices_.unit(unit);
  of.expect_unchanged();
  if (!is_quiet(unit) || state_[unit].written || !of.memory().defined()) return;
  const at::Tensor& mine = slices_.share(unit);
  const at::Tensor gathered = of.memory().narrow(0, comm_.rank() * mine.numel(), mine.numel());
  const bool same = mine.to(gathered.scalar_type()).view(at::kByte).equal(gathered.view(at::kByte));  // bitwise, since NaN equals nothing
  if (same) return;
  changed_ = of.parameters().front().name;
  reducer_.set_step_fingerprint(1);
}

// All ranks learn of a change at the end of the pass.
void Gathered::expect_unchanged() {
  const std::string changed = std::exchange(changed_, {});
  if (reducer_.fingerprints_agree() && changed.empty()) return;
  for (const std::string& name : allgather_strings(comm_, changed)) {
    TW_EXPECTS(name.empty(), "parameter ", name,
               " or a parameter next to it in memory was changed in place, but its slices keep the old values: change the slices");
  }
}

}  // namespace

std::unique_ptr<UnitValues> gathered_values(const Communicator& comm, std::shared_ptr<OrderCheck> orders, const ParameterSlices& slices,
                                            Reducer& reducer, const FullyShardedOptions& options,
                                            std::function<void(const std::string& why)> give_up) {
  return std::make_unique<Gathered>(comm, std::move(orders), slices, reducer, options, std::move(give_up));
}

}  // namespace tw

"""The training loop: exact resumption, checkpoints that are whole, plans that fit."""

import json
import signal
import time

import pytest
import torch
from forked import PROCESSES
from small_run import STEPS, Classes, Images, write_losses
from torch import nn

from pixtree.training import loop
from pixtree.training.batches import SampleOrder, Share, micro_batches
from pixtree.training.loop import SCALE, Objective, _expect_idle, parameter_groups, train
from pixtree.training.recipe import Plan


class Fit(Objective):
    """Least squares with dropout, which needs random numbers."""

    def __init__(self, broken=False):
        super().__init__()
        torch.manual_seed(1)
        self.learner, self.broken = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1)), broken

    def forward(self, batch):
        loss = (self.learner(batch) - batch.sum(1, keepdim=True)).square().mean()
        return {"loss": loss * torch.nan if self.broken else loss, "size": torch.tensor(float(len(batch)))}


class Rows:
    """Batches of eight rows in micro-batches of `size`."""

    def __init__(self, size=None):
        self.size, self.values = size, torch.randn(20, 4, generator=torch.Generator().manual_seed(0))

    def starting(self, step, share):
        while True:
            samples = SampleOrder(20, 8).samples(step, share)
            yield [self.values[[one.place for one in part]] for part in micro_batches(samples, self.size)]
            step += 1


def weights(objective):
    return torch.cat([one.detach().flatten() for one in objective.learner.parameters()])


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_run_that_stopped_goes_on_as_if_it_had_not(tmp_path, average):
    plan = Plan(steps=6, every=3, warmup_steps=2, average=average)

    def stop(step, figures):
        if step == 3:
            raise KeyboardInterrupt

    whole, part, resumed = Fit(), Fit(), Fit()
    done = train(whole, Rows(), plan)
    with pytest.raises(KeyboardInterrupt):
        train(part, Rows(), plan, checkpoint=tmp_path / "c.pt", report=stop)
    again = train(resumed, Rows(), plan, checkpoint=tmp_path / "c.pt", resume=True)
    assert again.losses == done.losses
    assert torch.equal(weights(whole), weights(resumed))
    if average:
        pairs = zip(done.averaged.parameters(), again.averaged.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert not torch.equal(next(done.averaged.parameters()), next(whole.learner.parameters()))


def test_going_on_needs_the_checkpoint_and_its_settings(tmp_path):
    with pytest.raises(FileNotFoundError, match="start without resuming"):
        train(Fit(), Rows(), Plan(steps=1), checkpoint=tmp_path / "none.pt", resume=True)
    train(Fit(), Rows(), Plan(steps=1), checkpoint=tmp_path / "c.pt")
    with pytest.raises(ValueError, match="others for plan"):
        train(Fit(), Rows(), Plan(steps=2), checkpoint=tmp_path / "c.pt", resume=True)


@pytest.mark.parametrize("keep", [0, 100, -10])
def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path, keep):
    path = tmp_path / "c.pt"
    train(Fit(), Rows(), Plan(steps=1), checkpoint=path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="is damaged or another file; remove it and start again"):
        train(Fit(), Rows(), Plan(steps=1), checkpoint=path, resume=True)


def test_a_loss_that_is_not_finite_stops_the_run():
    with pytest.raises(ValueError, match="stay finite"):
        train(Fit(broken=True), Rows(), Plan(steps=1))


def test_processes_look_for_parameters_without_gradients_only_if_there_are_some():
    class Partly(Fit):
        def forward(self, batch):
            return {"loss": self.learner[0](batch).square().mean()}

    from accelerate import Accelerator

    for made, wanted in ((Fit(), False), (Partly(), True)):
        made.register_buffer("seen", torch.zeros(()))
        accelerator = Accelerator(cpu=True)
        _expect_idle(accelerator, made, next(Rows().starting(0, Share())))
        assert accelerator.ddp_handler.find_unused_parameters is wanted
        assert all(one.grad is None for one in made.parameters())


def test_held_out_data_are_measured_between_steps_and_change_nothing():
    seen = []

    def validate(learner):
        torch.rand(3)
        seen.append(float(next(learner.parameters()).detach().sum()))
        return {"loss": float(len(seen))}

    lines = []
    plan = Plan(steps=5, validation_steps=2)
    measured = train(Fit(), Rows(), plan, validate=validate, report=lambda step, figures: lines.append(figures))
    assert [line.get("val_loss") for line in lines] == [None, 1.0, None, 2.0, 3.0]
    assert len(set(seen)) == 3
    assert measured.measured == {"loss": 3.0}
    assert measured.losses == train(Fit(), Rows(), Plan(steps=5)).losses


def test_gradients_of_micro_batches_add_up_to_those_of_the_batch():
    class Exact(Fit):
        def forward(self, batch):
            self.learner.eval()
            return super().forward(batch)

    plan = Plan(steps=4, warmup_steps=0)
    curves = [train(Exact(), Rows(size), plan).losses for size in (None, 4, 2)]
    for other in curves[1:]:
        assert other == pytest.approx(curves[0], rel=1e-5)


def test_an_order_shows_every_sample_once_an_epoch_and_shares_it_equally():
    order = SampleOrder(10, 4, seed=3)
    seen = [one for step in range(5) for one in order.samples(step)]
    assert [one.epoch for one in seen] == [0] * 10 + [1] * 10
    assert sorted(one.place for one in seen[:10]) == sorted(one.place for one in seen[10:]) == list(range(10))
    assert [one.place for one in seen[:10]] != [one.place for one in seen[10:]]
    shares = [order.samples(7, Share(rank, 2)) for rank in range(2)]
    assert shares[0] + shares[1] == order.samples(7)
    assert order.steps(2) == 5
    with pytest.raises(ValueError, match="3 processes can share equally, got 4; take a multiple of 3"):
        order.samples(0, Share(0, 3))


def test_the_rate_goes_from_start_over_base_to_stop():
    plan = Plan(steps=1000, rate={"start": 1e-6, "base": 1e-3, "stop": 1e-5}, warmup_steps=10)
    rates = [plan.rate_at(step) for step in range(1000)]
    assert rates[0] == pytest.approx(1e-6 + (1e-3 - 1e-6) / 10, rel=1e-3)
    assert max(rates) == pytest.approx(1e-3, rel=1e-2)
    assert rates[-1] == pytest.approx(1e-5, rel=1e-2)


def test_rates_fall_towards_the_stem_and_named_parameters_have_their_own():
    import pixtree

    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=25, depth=2)
    plan = Plan(layer_decay=0.5, weight_decay=0.1, rate_scales={"tokenizer.sampler": 10.0})
    groups = parameter_groups(model, plan)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = {names[id(one)]: group[SCALE] for group in groups for one in group["params"]}
    assert set(rates) == {name for name, one in model.named_parameters() if one.requires_grad}
    assert rates["backbone.vit.head.weight"] == 1.0
    assert rates["backbone.vit.blocks.0.attn.qkv.weight"] == 0.5 * rates["backbone.vit.blocks.1.attn.qkv.weight"]
    assert {value for name, value in rates.items() if name.startswith("tokenizer.sampler")} == {10.0}
    decays = {names[id(one)]: group["weight_decay"] for group in groups for one in group["params"]}
    assert decays["backbone.vit.blocks.0.attn.qkv.weight"] == 0.1
    assert decays["backbone.vit.blocks.0.attn.qkv.bias"] == 0.0
    with pytest.raises(ValueError, match="a model that knows its layers, got Sequential"):
        parameter_groups(nn.Sequential(nn.Linear(1, 1)), plan)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimiser": "none"}, "'optimiser' in the plan, got 'none': input should be 'adamw', 'lamb' or 'sgd'"),
        ({"precision": "half"}, "'precision' in the plan, got 'half': input should be 'float32' or 'bfloat16'"),
        ({"layer_decay": 0.0}, "'layer_decay' in the plan, got 0.0: input should be greater than 0"),
        ({"average": 1.0}, "'average' in the plan, got 1.0: input should be less than 1"),
        ({"steps": 0}, "'steps' in the plan, got 0: input should be greater than 0"),
        ({"weight_decay": -1.0}, "'weight_decay' in the plan, got -1.0: input should be greater than or equal to 0"),
        ({"decay": 0.1}, "got 'decay' in the plan"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        Plan(**changes)


@pytest.mark.parametrize(
    ("made", "data", "compiler"), [(Fit, Rows, "eager"), pytest.param(Classes, Images, "inductor", marks=pytest.mark.slow)]
)
def test_a_compiled_run_has_the_losses_of_the_run(monkeypatch, made, data, compiler):
    monkeypatch.setattr(loop, "COMPILER", compiler)
    torch._dynamo.reset()
    compilations = torch._dynamo.utils.counters["stats"]
    plan, objectives = Plan(steps=3, rate=1e-3, warmup_steps=1), [made(), made()]
    curves = [train(one, data(), plan, compiled=compiled).losses for one, compiled in zip(objectives, (False, True), strict=True)]
    assert compilations["unique_graphs"] > 0
    assert curves[1] == pytest.approx(curves[0], abs=1e-5)
    assert objectives[0].learner.state_dict().keys() == objectives[1].learner.state_dict().keys()


@pytest.mark.parametrize("optimiser", ["lamb", "sgd"])
def test_other_optimisers_learn_too(optimiser):
    losses = train(Fit(), Rows(), Plan(steps=40, rate=3e-2, optimiser=optimiser, epsilon=1e-7)).losses
    assert losses[-1] < 0.7 * losses[0]


def started(output, checkpoint, seconds=0.0):
    process = PROCESSES.Process(target=write_losses, args=(output, checkpoint, seconds))
    process.start()
    return process


def losses_apart(output, checkpoint):
    """The losses of a process of its own: in this one, what other tests leave in memory can move the last digits."""
    process = started(output, checkpoint)
    process.join(120)
    assert process.exitcode == 0
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The losses of one process that nothing interrupts."""
    folder = tmp_path_factory.mktemp("alone")
    return losses_apart(folder / "losses.json", folder / "c.pt")


def test_a_run_that_was_killed_ends_as_the_uninterrupted_one(tmp_path, alone):
    checkpoint = tmp_path / "killed.pt"
    killed = started(tmp_path / "killed.json", checkpoint, 0.2)
    limit = time.monotonic() + 100
    while not checkpoint.is_file() and time.monotonic() < limit:
        time.sleep(0.02)
    killed.kill()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    state = torch.load(checkpoint, weights_only=True)
    assert 0 < len(state["curve"]) < STEPS
    assert losses_apart(tmp_path / "resumed.json", checkpoint) == alone

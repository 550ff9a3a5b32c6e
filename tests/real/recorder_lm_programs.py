"""What people run with mlx_lm, small: `python recorder_lm_programs.py generate|lora`. Random weights, nothing is
downloaded. Prints its results and leaves marks, as recorder_programs.py."""
import contextlib
import io
import sys
import tempfile

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.generate import generate_step
from mlx_lm.models import llama
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.tuner.trainer import TrainingArgs, TrainingCallback, train
from mlx_lm.tuner.utils import linear_to_lora_layers
from recorder_programs import mark, show

VOCABULARY = 256


def tiny_model(layers=2):
    mx.random.seed(11)
    model = llama.Model(llama.ModelArgs(model_type="llama", hidden_size=32, num_hidden_layers=layers,
                                        intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
                                        rms_norm_eps=1e-5, vocab_size=VOCABULARY, head_dim=8))
    mx.eval(model.parameters())
    return model


def generate():
    """Tokens one by one with a key-value cache: prefill in pieces, generation on a stream of its own, evaluated ahead."""
    model = tiny_model()
    prompt = mx.array([(7 * index) % VOCABULARY for index in range(70)])
    for _ in range(2):
        cache = make_prompt_cache(model)
        steps = generate_step(prompt, model, max_tokens=40, prefill_step_size=32, prompt_cache=cache)
        tokens, certainty = [], 0.0
        for token, logprobs in steps:
            tokens.append(token)
            certainty += logprobs.max().item()
        print(tokens, certainty.hex())
        mx.synchronize()
        del cache, steps, logprobs
        mark()
    mx.clear_cache()
    mark()


class Losses(TrainingCallback):
    def __init__(self):
        self.seen = []

    def on_train_loss_report(self, info):
        self.seen.append((info["iteration"], "train", info["train_loss"].hex()))

    def on_val_loss_report(self, info):
        self.seen.append((info["iteration"], "validation", info["val_loss"].hex()))


def lora():
    """Fine-tuning of an adapted layer through mlx_lm's own loop: compiled steps, evaluation, saved adapters."""
    model = tiny_model(layers=1)
    model.freeze()
    linear_to_lora_layers(model, 1, {"rank": 4, "scale": 10.0, "dropout": 0.0})
    rng = np.random.default_rng(5)
    examples = [(rng.integers(0, VOCABULARY, 24).tolist(), 0) for _ in range(12)]
    np.random.seed(5)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArgs(batch_size=4, iters=6, val_batches=1, steps_per_report=2, steps_per_eval=3,
                                 steps_per_save=3, max_seq_length=33, adapter_file=f"{folder}/adapters.safetensors")
        losses = Losses()
        with contextlib.redirect_stdout(io.StringIO()):  # its progress tells speeds, which differ each time
            train(model, optim.Adam(1e-3), examples, examples[:4], arguments, training_callback=losses)
        print(losses.seen)
        saved = mx.load(f"{folder}/adapters.safetensors")
        mx.eval(saved)
        print(sorted(saved))
        del saved
    mx.synchronize()
    mark()
    show(*(value for _, value in sorted(tree_flatten(model.trainable_parameters()))))


if __name__ == "__main__":
    globals()[sys.argv[1]]()

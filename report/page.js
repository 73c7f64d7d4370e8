// SPDX-License-Identifier: Apache-2.0
// The program of the page: draws the plots with Chart.js, and sorts and filters the tables. It reads
// the plots from the page and sends nothing.
"use strict";
(() => {
	const plots = JSON.parse(document.getElementById("plots").textContent);
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const shapes = {o: "circle", s: "rect", "^": "triangle", D: "rectRot", v: "triangle", p: "star", h: "rectRounded", "": "line"};
	// The shapes as characters for the legend: filled, and open for dashed lines.
	const signs = {o: "●○", s: "■□", "^": "▲△", D: "◆◇", v: "▲△", p: "✱✲", h: "■□", "": "  "};
	const drawn = new Map();
	const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
	const faint = (hex, share) => hex + Math.round(share * 255).toString(16).padStart(2, "0");

	function number(value) {
		if (value === 0) return "0";
		const size = Math.abs(value);
		if (size >= 1000) return Math.round(value).toLocaleString("en");
		return size < 0.001 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
	}

	// The 95 % interval of each point as a bar.
	const intervals = {
		id: "intervals",
		beforeDatasetsDraw(chart) {
			const {ctx, chartArea: area, scales: {y}} = chart;
			ctx.save();
			ctx.beginPath();
			ctx.rect(area.left, area.top, area.width, area.height);
			ctx.clip();
			chart.data.datasets.forEach((set, place) => {
				if (!chart.isDatasetVisible(place) || set.behind || set.doubtful) return;
				ctx.strokeStyle = faint(set.hex, 0.55);
				ctx.lineWidth = 1.25;
				chart.getDatasetMeta(place).data.forEach((point, at) => {
					const {low, high} = set.data[at];
					if (!(high > low)) return;
					const top = y.getPixelForValue(high);
					const bottom = low > 0 || y.type === "linear" ? y.getPixelForValue(low) : area.bottom;
					ctx.beginPath();
					ctx.moveTo(point.x, top);
					ctx.lineTo(point.x, bottom);
					for (const end of [top, bottom]) {
						ctx.moveTo(point.x - 3, end);
						ctx.lineTo(point.x + 3, end);
					}
					ctx.stroke();
				});
			});
			ctx.restore();
		},
	};

	// A line becomes one dataset for its valid rows, and one for its doubtful rows if it has some.
	function datasets(lines) {
		const sets = [];
		lines.forEach((line, place) => {
			const hex = colour(line.colour);
			const strong = line.behind ? faint(hex, 0.4) : hex;
			sets.push({
				label: line.label, place, hex, behind: line.behind, order: line.behind ? 2 : 1,
				data: line.points.map(([x, low, y, high]) => ({x, y, low, high})),
				borderColor: strong, backgroundColor: line.dashed ? colour("paper") : strong,
				borderWidth: line.behind ? 1.5 : 2.25, borderDash: line.behind ? [2, 3] : line.dashed ? [7, 4] : [],
				pointStyle: shapes[line.marker], pointRadius: line.marker ? (line.behind ? 2 : 3.5) : 0,
				pointHoverRadius: 6, pointHitRadius: 10,
			});
			if (line.doubtful.length) {
				sets.push({
					label: line.label, place, hex, behind: line.behind, doubtful: true, showLine: false, order: 0,
					data: line.doubtful.map(([x, y, validity, reason]) => ({x, y, validity, reason})),
					borderColor: faint(hex, 0.5), backgroundColor: faint(hex, 0.15), borderWidth: 1.75,
					pointStyle: line.doubtful.map((point) => (point[2] === "invalid" ? "crossRot" : "circle")),
					pointRadius: 5, pointHoverRadius: 7, pointHitRadius: 10,
				});
			}
		});
		return sets;
	}

	function tooltipLine(item) {
		const {raw, dataset} = item;
		if (raw.validity) return `${dataset.label}: ${number(raw.y)} (${raw.validity}${raw.reason ? ": " + raw.reason.slice(0, 60) : ""})`;
		return `${dataset.label}: ${number(raw.y)}` + (raw.high > raw.low ? ` [${number(raw.low)}, ${number(raw.high)}]` : "");
	}

	function axis(title, log, ticks, points) {
		const scale = {
			type: log ? "logarithmic" : "linear",
			title: {display: true, text: title, color: colour("muted"), font: {size: 11.5}},
			grid: {color: colour("line"), drawTicks: false, borderColor: colour("muted")},
			ticks: {color: colour("muted"), padding: 6, maxRotation: 0, font: {size: 11}},
		};
		if (ticks) {
			scale.grid.display = false;
			const texts = new Map(ticks);
			const values = ticks.map(([value]) => value);
			scale.min = log ? values[0] / 1.15 : Math.min(0, values[0]);
			scale.max = log ? values[values.length - 1] * 1.15 : values[values.length - 1];
			scale.ticks.autoSkip = true;
			scale.ticks.autoSkipPadding = 10;
			if (log || ticks.length < 12) {
				scale.afterBuildTicks = (made) => { made.ticks = values.map((value) => ({value})); };
				scale.ticks.callback = (value) => texts.get(value) ?? "";
			}
			if (!log) scale.ticks.callback = (value) => texts.get(value) ?? number(value);
		} else {
			// Bars far above every point would flatten the curves; those are cut at the edge.
			const most = points.reduce((top, point) => Math.max(top, point[2]), 0);
			const bars = points.reduce((top, point) => Math.max(top, point[3]), 0);
			scale.suggestedMax = log ? 1.15 * most : Math.min(bars, 1.4 * most);
			if (log) scale.suggestedMin = points.reduce((least, point) => Math.min(least, point[2]), most) / 1.15;
			else scale.beginAtZero = true;
			scale.ticks.callback = (value) => {
				const lead = Number(String(value.toExponential()).split("e")[0]);
				return !log || [1, 2, 5].includes(lead) ? number(value) : "";
			};
		}
		return scale;
	}

	function draw(figure) {
		const state = drawn.get(figure);
		const {plot, logX, logY, view, hidden} = state;
		state.chart?.destroy();
		const lines = plot.views[view].lines;
		const ticks = plot.ticks.length ? plot.ticks : null;
		state.chart = new Chart(figure.querySelector("canvas"), {
			type: "line",
			data: {datasets: datasets(lines)},
			plugins: [intervals],
			options: {
				animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
				interaction: {mode: "nearest", axis: "x", intersect: false},
				scales: {x: axis(plot.x, logX, ticks, []), y: axis(plot.y, logY, null, lines.flatMap((line) => line.points))},
				plugins: {
					legend: {display: false},
					tooltip: {
						backgroundColor: colour("ink"), titleColor: colour("paper"), bodyColor: colour("paper"),
						padding: 9, boxPadding: 4, bodyFont: {size: 11.5}, itemSort: (a, b) => b.raw.y - a.raw.y,
						filter: (item, place) => place < 14,
						callbacks: {
							title: (items) => items.length ? new Map(plot.ticks).get(items[0].raw.x) || number(items[0].raw.x) : "",
							label: tooltipLine,
							labelColor: ({dataset}) => ({borderColor: dataset.hex, backgroundColor: dataset.hex}),
						},
					},
				},
			},
		});
		state.chart.data.datasets.forEach((set, at) => state.chart.setDatasetVisibility(at, !hidden.has(set.place)));
		state.chart.update();
	}

	function legend(figure) {
		const state = drawn.get(figure);
		const list = figure.querySelector(".legend");
		list.replaceChildren(...state.plot.views[state.view].lines.map((line, place) => {
			const button = document.createElement("button");
			const sample = document.createElement("i");
			sample.style.color = `var(--${line.colour})`;
			sample.dataset.mark = signs[line.marker][line.dashed ? 1 : 0];
			if (line.dashed || line.behind) sample.className = "dashed";
			button.type = "button";
			button.className = line.behind ? "behind" : "";
			button.title = "Show or hide this series";
			button.setAttribute("aria-pressed", String(!state.hidden.has(place)));
			button.append(sample, line.label);
			button.addEventListener("click", () => {
				const hide = !state.hidden.has(place);
				if (hide) state.hidden.add(place);
				else state.hidden.delete(place);
				button.setAttribute("aria-pressed", String(!hide));
				state.chart.data.datasets.forEach((set, at) => {
					if (set.place === place) state.chart.setDatasetVisibility(at, !hide);
				});
				state.chart.update();
			});
			const item = document.createElement("li");
			item.append(button);
			return item;
		}));
	}

	function start(figure) {
		const plot = plots[figure.dataset.plot];
		const state = {plot, view: 0, logX: plot.logX, logY: plot.logY, hidden: new Set(), chart: null};
		drawn.set(figure, state);
		for (const box of figure.querySelectorAll("[data-axis]")) {
			const name = box.dataset.axis === "x" ? "logX" : "logY";
			box.checked = state[name];
			box.addEventListener("change", () => { state[name] = box.checked; draw(figure); });
		}
		figure.querySelector("select")?.addEventListener("change", (event) => {
			state.view = Number(event.target.value);
			state.hidden.clear();
			legend(figure);
			draw(figure);
		});
		legend(figure);
		draw(figure);
	}

	// A plot is drawn when it comes near to the screen, so that a page of many opens at once.
	const watcher = new IntersectionObserver((entries) => {
		for (const {isIntersecting, target} of entries) {
			if (!isIntersecting) continue;
			watcher.unobserve(target);
			start(target);
		}
	}, {rootMargin: "600px"});
	Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
	document.querySelectorAll("figure[data-plot]").forEach((figure) => watcher.observe(figure));
	dark.addEventListener("change", () => drawn.forEach((_, figure) => draw(figure)));

	function sortBy(table, place, head) {
		const down = head.getAttribute("aria-sort") === "ascending";
		table.querySelectorAll("thead th").forEach((each) => each.removeAttribute("aria-sort"));
		head.setAttribute("aria-sort", down ? "descending" : "ascending");
		const key = (row) => {
			const cell = row.cells[place];
			if ("v" in cell.dataset) return Number(cell.dataset.v);
			return head.classList.contains("text") ? cell.textContent.trim() : null;
		};
		const body = table.tBodies[0];
		const rows = [...body.rows].map((row) => ({row, key: key(row)}));
		rows.sort((a, b) => {
			// A row without a figure comes last in both directions.
			if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
			const order = typeof a.key === "number" ? a.key - b.key : a.key.localeCompare(b.key, "en", {numeric: true});
			return down ? -order : order;
		});
		body.replaceChildren(...rows.map(({row}) => row));
	}

	for (const box of document.querySelectorAll(".table")) {
		const table = box.querySelector("table.sortable");
		if (!table) continue;
		table.querySelectorAll("thead th").forEach((head, place) => {
			head.querySelector("button").addEventListener("click", () => sortBy(table, place, head));
		});
		box.querySelector("input[type=search]").addEventListener("input", (event) => {
			const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
			for (const row of table.tBodies[0].rows) {
				const text = row.textContent.toLowerCase();
				row.hidden = !words.every((word) => text.includes(word));
			}
		});
	}
})();
